package auth_test

import (
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/auth"
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
	name, write := keyFileOf(t, "")
	for i := range bad {
		write(jwks(bad[i]))
		if _, faults := auth.New(&auth.Options{JWT: &auth.JWT{Issuer: "ours", Audience: "a", Scopes: readScopes, Keys: name}}); len(faults) != 1 {
			t.Errorf("%v is accepted", bad[i])
		}
	}
	write(jwks(append(bad, ecPair.jwk(m{"key_ops": []string{"verify"}, "use": nil, "alg": nil}))...))
	known := table(t, "ours", name)
	for p, want := range map[*testKey]fault.Code{ecPair: "", rsaPair: fault.Denied, rsaShort: fault.Denied, edPair: fault.Denied} {
		if _, err := known.Verify(t.Context(), p.plain("ours")); fault.CodeOf(err) != want {
			t.Errorf("%s: %v, want %q", p.kid, inner(err), want)
		}
	}
}
