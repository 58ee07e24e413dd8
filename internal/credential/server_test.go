package credential

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/onecall-mcp/onecall/internal/oauthtest"
)

// gatewayAt returns the token endpoint of an authorization server, with the client gateway.
func gatewayAt(s *oauthtest.Server) *Endpoint {
	return &Endpoint{URL: s.TokenURL, ClientID: "gateway", Secret: oauthtest.Secret, Client: http.DefaultClient}
}

// claimsOf returns the text of a JWT's claims.
func claimsOf(t *testing.T, token string) string {
	t.Helper()
	parsed, err := jose.ParseSignedCompact(strings.TrimPrefix(token, bearer), algorithms)
	if err != nil {
		t.Fatalf("%s: %v", token, err)
	}
	return string(parsed.UnsafePayloadWithoutVerification())
}
