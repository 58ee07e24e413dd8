package auth_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/internal/auth"
	"github.com/onecall-mcp/onecall/steps"
)

// FuzzVerify sends anything as a token: only a token signed with the key is accepted.
func FuzzVerify(f *testing.F) {
	s := newAuthServer(f, rsaPair.jwk(nil), ecPair.jwk(nil), edPair.jwk(nil))
	known := table(f, s.URL, "", func(o *auth.Options) { o.Tokens = []auth.Token{{Name: "ci", SHA256: hashOf("secret")}} })
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
			// The last character of a segment has unused bits: a token that differs only in them is the same.
			if !strings.HasPrefix(caller.ID, "jwt:ann@") {
				t.Errorf("%q: got caller %+v, want an ID that begins with jwt:ann@", token, caller)
			}
		case err != nil && (!isInvalid(err) && !errors.Is(err, steps.ErrScope)):
			t.Errorf("%q: got error %v, want invalid_token or %v", token, err, steps.ErrScope)
		}
	})
}

// FuzzKeys reads anything as a key set: an accepted one verifies without a panic.
func FuzzKeys(f *testing.F) {
	f.Add([]byte(jwks(rsaPair.jwk(nil), ecPair.jwk(nil), edPair.jwk(nil))))
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"AQ","e":"AQ"},{"kty":"EC","crv":"P-256","x":"","y":""},{"kty":"OKP","crv":"Ed25519","x":"AA"},null,1]}`))
	f.Add([]byte(`{"keys":[{"kty":"AKP","alg":"ML-DSA-44","pub":"AA"},{"kty":"oct","k":""}]}`))
	name := filepath.Join(f.TempDir(), "keys.json")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		known, faults := auth.New(&auth.Options{Now: func() time.Time { return now },
			JWT: &auth.JWT{Issuer: "ours", Audience: "https://tools.example.com/mcp", Keys: name, Scopes: readScopes}})
		if len(faults) > 0 {
			if strings.Contains(faults[0].Message, "a defect of onecall") {
				t.Fatal(faults[0])
			}
			return
		}
		defer known.Close()
		for _, p := range []*testKey{rsaPair, ecPair, edPair} {
			for _, token := range []string{p.plain("ours"), p.token(fmt.Sprintf(`{"alg":%q}`, p.alg), goodClaims("ours", nil))} {
				if _, err := known.Verify(t.Context(), token); err != nil && !isInvalid(err) {
					t.Fatalf("got error %v (%v), want none or invalid_token", err, inner(err))
				}
			}
		}
	})
}
