package credential

import (
	"context"
	"net/url"
	"time"

	"golang.org/x/oauth2"

	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/steps"
)

// The words of RFC 8693, section 2.1.
const (
	grantExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	accessToken   = "urn:ietf:params:oauth:token-type:access_token"
)

// exchangedCredential returns the credential of a caller whose token is exchanged for one of the service. It lives no longer than the
// caller's token.
func exchangedCredential(r *Rule, digest, subject string, ends time.Time) *steps.Credential {
	t := &tokens{}
	t.hidden.subject = secret.UnusualComponents(subject)
	t.hidden.scrubber.Store(secret.New(t.hidden.subject))
	t.fetch = func(ctx context.Context) (*oauth2.Token, error) {
		token, err := r.Exchange.fetch(ctx, r.Name, url.Values{"grant_type": {grantExchange}, "subject_token": {subject},
			"subject_token_type": {accessToken}, "requested_token_type": {accessToken}})
		if err == nil && !ends.IsZero() && ends.Before(token.Expiry) {
			token.Expiry = ends
		}
		return token, err
	}
	return t.credential(r.Name, digest)
}
