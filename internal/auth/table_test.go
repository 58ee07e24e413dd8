package auth_test

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/auth"
	"github.com/onecall-mcp/onecall/steps"
)

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// isInvalid reports whether an error refuses the token itself (invalid_token of RFC 6750).
func isInvalid(err error) bool {
	return fault.CodeOf(err) == fault.Denied && strings.HasPrefix(inner(err).Error(), "invalid_token: ")
}

func TestJWTFaults(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*auth.JWT)
		at     string
	}{
		"no issuer":                  {func(j *auth.JWT) { j.Issuer = "" }, "/jwt/issuer"},
		"issuer not a URL":           {func(j *auth.JWT) { j.Issuer = "id" }, "/jwt/issuer"},
		"issuer plain http":          {func(j *auth.JWT) { j.Issuer = "http://id.example.com" }, "/jwt/issuer"},
		"issuer with query":          {func(j *auth.JWT) { j.Issuer += "?a" }, "/jwt/issuer"},
		"issuer fragment":            {func(j *auth.JWT) { j.Issuer += "#a" }, "/jwt/issuer"},
		"issuer password":            {func(j *auth.JWT) { j.Issuer = "https://a:b@id.example.com" }, "/jwt/issuer"},
		"issuer blank":               {func(j *auth.JWT) { j.Issuer += " " }, "/jwt/issuer"},
		"issuer long":                {func(j *auth.JWT) { j.Issuer += strings.Repeat("a", 2048) }, "/jwt/issuer"},
		"no audience":                {func(j *auth.JWT) { j.Audience = "" }, "/jwt/audience"},
		"no scopes":                  {func(j *auth.JWT) { j.Scopes = nil }, "/jwt/scopes"},
		"scope of two words":         {func(j *auth.JWT) { j.Scopes = map[string]steps.Tier{"a b": steps.TierRead} }, "/jwt/scopes/a b"},
		"scope with an unknown tier": {func(j *auth.JWT) { j.Scopes = map[string]steps.Tier{"a": steps.TierAdmin + 1} }, "/jwt/scopes/a"},
		"keys plain http":            {func(j *auth.JWT) { j.Keys = "http://id.example.com/keys" }, "/jwt/keys"},
		"keys by file URL":           {func(j *auth.JWT) { j.Keys = "file:///keys" }, "/jwt/keys"},
		"keys missing":               {func(j *auth.JWT) { j.Keys = t.TempDir() + "/keys" }, "/jwt/keys"},
		"keys a folder":              {func(j *auth.JWT) { j.Keys = t.TempDir() }, "/jwt/keys"},
		"keys a device":              {func(j *auth.JWT) { j.Keys = "/dev/null" }, "/jwt/keys"},
	} {
		j := &auth.JWT{Issuer: "https://id.invalid", Audience: "a", Scopes: readScopes}
		test.change(j)
		known, faults := auth.New(&auth.Options{JWT: j})
		if known != nil {
			known.Close()
		}
		if len(faults) != 1 || faults[0].At != test.at || faults[0].Code != fault.BadRequest || known != nil {
			t.Errorf("%s: got faults %v, want one bad_request at %s", name, faults, test.at)
		}
	}
}

func TestIssuers(t *testing.T) {
	t.Parallel()
	s := newAuthServer(t, rsaPair.jwk(nil))
	if issuers := table(t, s.URL, "").Issuers(); !slices.Equal(issuers, []string{s.URL}) {
		t.Errorf("got issuers %q, want %s", issuers, s.URL)
	}
	if issuers := table(t, "our own", s.URL+"/keys", func(o *auth.Options) { o.JWT.Issuer = "ours" }).Issuers(); issuers != nil {
		t.Errorf("got issuers %q, want none", issuers)
	}
}
