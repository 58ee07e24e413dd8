package auth_test

import (
	"fmt"
	"testing"

	"github.com/onecall-mcp/onecall/internal/auth"
	"github.com/onecall-mcp/onecall/steps"
)

// BenchmarkVerify measures what identifying the caller adds to a request: a token of a table of 10,000, a JWT that was seen before, and
// new JWTs.
func BenchmarkVerify(b *testing.B) {
	var tokens []auth.Token
	for i := range 10_000 {
		tokens = append(tokens, auth.Token{Name: fmt.Sprint(i), SHA256: hashOf(fmt.Sprint("token-", i))})
	}
	s := newAuthServer(b, rsaPair.jwk(nil), ecPair.jwk(nil), edPair.jwk(nil))
	known := table(b, s.URL, "", func(o *auth.Options) { o.Tokens = tokens })
	for _, arm := range []struct {
		name, token string
		signer      *testKey // signs a new token each time
	}{
		{"table", "token-5000", nil}, {"seen", rsaPair.plain(s.URL), nil},
		{"RS256", "", rsaPair}, {"ES256", "", ecPair}, {"EdDSA", "", edPair},
	} {
		b.Run(arm.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				token := arm.token
				if arm.signer != nil {
					b.StopTimer()
					token = arm.signer.token(arm.signer.header(), goodClaims(s.URL, map[string]any{"jti": fmt.Sprint(i)}))
					b.StartTimer()
				}
				if _, err := known.Verify(b.Context(), token); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAllows narrows 10,000 functions by 20 patterns, the last of which matches one function in ten.
func BenchmarkAllows(b *testing.B) {
	var specs []steps.Spec
	for i := range 10_000 {
		specs = append(specs, steps.Spec{Name: fmt.Sprintf("netbox.dcim.device_%d.list_%d", i/10, i%10), Effect: steps.Read})
	}
	r := steps.Rights{}
	for i := range 19 {
		r.Functions += fmt.Sprintf("source%d.*.read ", i)
	}
	r.Functions += "netbox.*.list_7"
	b.ReportAllocs()
	for b.Loop() {
		allowed := 0
		for i := range specs {
			if r.Allows(&specs[i]) {
				allowed++
			}
		}
		if allowed != 1000 {
			b.Fatalf("%d functions are allowed, want 1000", allowed)
		}
	}
}
