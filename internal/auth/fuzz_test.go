package auth

import (
	"errors"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// FuzzVerify sends anything as a token: nobody but the holder of a key is let in.
func FuzzVerify(f *testing.F) {
	s := newAuthServer(f, rsaPair.jwk(nil), ecPair.jwk(nil), edPair.jwk(nil))
	known := table(f, s.URL, "", func(o *Options) { o.Tokens = []Token{{Name: "ci", SHA256: hashOf("secret")}} })
	good := map[string]bool{"secret": true}
	for _, p := range []*testKey{rsaPair, ecPair, edPair} {
		good[p.plain(s.URL)] = true
	}
	for token := range good {
		f.Add(token)
	}
	f.Add(rsaOther.plain(s.URL))
	f.Add(rsaPair.token(`{"alg":"RS256","kid":"rsa","crit":["exp"]}`, `{"exp":1e999}`))
	f.Add("e30.e30.")
	f.Fuzz(func(t *testing.T, token string) {
		caller, err := known.Verify(t.Context(), token)
		switch {
		case err == nil && !good[token]:
			// The last character of a part has bits that stand for nothing: the token is the same one.
			if !strings.HasPrefix(caller.ID, "jwt:ann@") {
				t.Errorf("%q: %+v", token, caller)
			}
		case err != nil && (fault.CodeOf(err) != fault.Denied || !errors.Is(err, errInvalid) && !errors.Is(err, steps.ErrScope)):
			t.Errorf("%q: %v", token, err)
		}
	})
}

// FuzzKeys reads anything as a key set: what is accepted verifies without a panic.
func FuzzKeys(f *testing.F) {
	f.Add([]byte(jwks(rsaPair.jwk(nil), ecPair.jwk(nil), edPair.jwk(nil))))
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"AQ","e":"AQ"},{"kty":"EC","crv":"P-256","x":"","y":""},{"kty":"OKP","crv":"Ed25519","x":"AA"},null,1]}`))
	f.Add([]byte(`{"keys":[{"kty":"AKP","alg":"ML-DSA-44","pub":"AA"},{"kty":"oct","k":""}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		set, err := parseKeys(text, algorithms)
		if err != nil {
			return
		}
		v := &verifier{}
		for _, p := range []*testKey{rsaPair, ecPair, edPair} {
			signed, f := v.parse(p.plain("ours"))
			if f != nil {
				t.Fatal(f)
			}
			for _, kid := range []string{"", p.kid} {
				for _, key := range set.find(kid, p.alg) {
					_, _ = signed.Verify(key)
				}
			}
		}
	})
}
