package credential

import (
	"context"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"golang.org/x/oauth2"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Handler returns a handler that provides the tokens of a credential to the SDK's client of MCP servers.
func Handler(c *steps.Credential) auth.OAuthHandler { return handler{c} }

type handler struct{ *steps.Credential }

// TokenSource implements auth.OAuthHandler.
func (h handler) TokenSource(ctx context.Context) (oauth2.TokenSource, error) {
	return tokenSource{ctx, h.Credential}, nil
}

type tokenSource struct {
	ctx context.Context
	*steps.Credential
}

// Token implements oauth2.TokenSource.
func (s tokenSource) Token() (*oauth2.Token, error) {
	headers, err := s.Headers(s.ctx)
	if err != nil {
		return nil, err
	}
	return &oauth2.Token{AccessToken: strings.TrimPrefix(headers["Authorization"], bearer), TokenType: "Bearer"}, nil
}

// Authorize implements auth.OAuthHandler: after a refusal the request is repeated with another token.
func (h handler) Authorize(_ context.Context, request *http.Request, answer *http.Response) error {
	_ = answer.Body.Close()
	if answer.StatusCode == http.StatusUnauthorized && h.Refused(map[string]string{"Authorization": request.Header.Get("Authorization")}) {
		return nil
	}
	f := fault.New(fault.Denied, "it refuses the token (status %d)", answer.StatusCode)
	f.Status = answer.StatusCode
	return unsent(f, h.Digest != "")
}
