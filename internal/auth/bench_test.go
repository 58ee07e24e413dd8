package auth

import (
	"fmt"
	"testing"

	"github.com/onecall-mcp/onecall/steps"
)

// BenchmarkVerify measures what rights add to a request: a token of a table of 10,000, a JWT that has been seen before,
// and JWTs that have not.
func BenchmarkVerify(b *testing.B) {
	var tokens []Token
	for i := range 10_000 {
		tokens = append(tokens, Token{Name: fmt.Sprint(i), SHA256: hashOf(fmt.Sprint("token-", i))})
	}
	s := newAuthServer(b, rsaPair.jwk(nil), ecPair.jwk(nil), edPair.jwk(nil))
	known := table(b, s.URL, "", func(o *Options) { o.Tokens = tokens })
	for _, arm := range []struct {
		name, token string
		anew        bool
	}{
		{"table", "token-5000", false}, {"seen", rsaPair.plain(s.URL), false},
		{"RS256", rsaPair.plain(s.URL), true}, {"ES256", ecPair.plain(s.URL), true}, {"EdDSA", edPair.plain(s.URL), true},
	} {
		b.Run(arm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if arm.anew {
					known.jwt.cache.Purge()
				}
				if _, err := known.Verify(b.Context(), arm.token); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAllows narrows 10,000 functions by 20 patterns, of which the last fits one function in ten.
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
			b.Fatal(allowed)
		}
	}
}
