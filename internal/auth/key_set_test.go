package auth_test

import (
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/auth"
)

// TestUnusableKeys: unusable keys are left out, and the others stay.
func TestUnusableKeys(t *testing.T) {
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
			t.Errorf("the key is accepted: %v", bad[i])
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

// TestKeyFile: a file without a usable key is refused at the start.
func TestKeyFile(t *testing.T) {
	t.Parallel()
	name, write := keyFileOf(t, "")
	for what, text := range map[string]string{
		"empty": "", "not JSON": "-----BEGIN PUBLIC KEY-----", "no keys": `{"keys":[]}`, "another object": `{}`, "too long": strings.Repeat(" ", maxKeysBytes+1),
		"a shared secret":  jwks(map[string]any{"kty": "oct", "k": "AAAA"}),
		"a private key":    jwks(edPair.jwk(map[string]any{"d": b64(make([]byte, 32))})),
		"too many":         jwks(make([]map[string]any, maxKeys+1)...),
		"a short key":      jwks(rsaShort.jwk(nil)),
		"for encryption":   jwks(rsaPair.jwk(map[string]any{"use": "enc"})),
		"for signing":      jwks(rsaPair.jwk(map[string]any{"key_ops": []string{"sign"}})),
		"other algorithms": jwks(rsaPair.jwk(map[string]any{"alg": "RSA-OAEP"})),
		"off the curve":    jwks(ecPair.jwk(map[string]any{"x": b64(make([]byte, 32))})),
	} {
		write(text)
		known, faults := auth.New(&auth.Options{JWT: &auth.JWT{Issuer: "ours", Audience: "a", Scopes: readScopes, Keys: name}})
		if known != nil || len(faults) != 1 || faults[0].At != "/jwt/keys" {
			t.Errorf("%s: got faults %v, want one at /jwt/keys", what, faults)
		} else if strings.Contains(faults[0].Message, "AAAA") {
			t.Errorf("%s: the fault shows the key: %v", what, faults[0])
		}
	}
}
