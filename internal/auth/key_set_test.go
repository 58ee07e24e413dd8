package auth

import (
	"testing"
)

// TestKeysThatCannotBeUsed are left out, and the others stay.
func TestKeysThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	type m = map[string]any
	bad := []m{
		{"kty": "EC", "crv": "secp256k1", "kid": "k", "alg": "ES256K"}, {"kty": "OKP", "crv": "X25519", "x": "AA"}, {"kty": "future"}, {},
		{"kty": "oct", "kid": "o", "k": "AAAA"}, rsaShort.jwk(nil), rsaPair.jwk(m{"use": "enc"}), rsaPair.jwk(m{"key_ops": []string{"encrypt"}}),
		rsaPair.jwk(m{"key_ops": "verify"}), rsaPair.jwk(m{"n": "!"}), rsaPair.jwk(m{"n": nil}), rsaPair.jwk(m{"kid": 7}),
		edPair.jwk(m{"d": b64(make([]byte, 32))}), edPair.jwk(m{"x": "AA"}), ecPair.jwk(m{"alg": "ES384"}), rsaPair.jwk(m{"x5c": []string{"AA"}}),
	}
	set, err := parseKeys([]byte(jwks(append(bad, ecPair.jwk(m{"key_ops": []string{"verify"}, "use": nil, "alg": nil}))...)), algorithms)
	if err != nil || len(set.keys) != 1 || set.keys[0].id != "ec" || set.skipped != len(bad) || set.reason() == "" {
		t.Errorf("%+v, %v", set, err)
	}
	for i := range bad {
		if set, err := parseKeys([]byte(jwks(bad[i])), algorithms); err == nil {
			t.Errorf("%v is accepted: %+v", bad[i], set.keys)
		}
	}
}
