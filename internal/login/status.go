package login

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/onecall-mcp/onecall/fault"
)

// State is what the store knows about a login.
type State struct {
	LoggedIn      bool      // there is a token that has not expired or can be renewed
	Renews        bool      // there is a refresh token
	Expires       time.Time // end of the access token; zero: unknown
	Scopes        []string  // the scopes of the login
	MissingScopes []string  // scopes that the server has required since the login; the next login requests them
	Issuer        string    // the issuer name of the authorization server
	Store         string    // see Store.Kind
}

// Status reads the stored login. Without one it returns a State with only Store set. Errors: bad_request, and those of the store.
func Status(ctx context.Context, o *Options) (State, error) {
	s, err := newServer(o)
	if err != nil {
		return State{}, err
	}
	r, err := s.load(ctx)
	state := State{Store: o.Store.Kind()}
	if err != nil || r == nil {
		return state, err
	}
	state.Renews = r.Refresh != ""
	state.LoggedIn = state.Renews || r.Expires.IsZero() || time.Now().Before(r.Expires)
	state.Expires, state.Scopes, state.MissingScopes, state.Issuer = r.Expires, slices.Clone(r.Scopes), slices.Clone(r.MissingScopes), r.Issuer
	return state, nil
}

// Logout revokes the tokens if the authorization server supports that (RFC 7009), and deletes them in any case. Without a login it does
// nothing. Errors: unavailable if the revocation was not confirmed, bad_request, and those of the store.
func Logout(ctx context.Context, o *Options) error {
	s, err := newServer(o)
	if err != nil {
		return err
	}
	unlock, err := s.o.Store.Lock(ctx, s.key())
	if err != nil {
		return err
	}
	defer unlock()
	r, _ := s.load(ctx) // an unreadable login is deleted too
	var reported error
	if r != nil && r.Revoke != "" {
		reported = s.revoke(ctx, r)
	}
	if err := s.o.Store.Delete(ctx, s.key()); err != nil {
		return err
	}
	return reported
}

// revoke revokes the tokens, the refresh token first: with most servers that ends all tokens derived from it.
func (s *server) revoke(ctx context.Context, r *record) error {
	for _, token := range []struct{ hint, text string }{{"refresh_token", r.Refresh}, {"access_token", r.Access}} {
		if token.text == "" {
			continue
		}
		if status, err := s.postRevoke(ctx, r, token.hint, token.text); err != nil || status != http.StatusOK {
			f := fault.New(fault.Unavailable, "server %q: the login is deleted here, but %s did not confirm that its tokens "+
				"are revoked", s.o.Source, hostOf(r.Revoke))
			f.Status = status
			return f
		}
	}
	return nil
}

// postRevoke asks the authorization server to revoke a token (RFC 7009), and returns the HTTP status; 0 with an error: there was no answer.
func (s *server) postRevoke(ctx context.Context, r *record, hint, token string) (status int, err error) {
	form := url.Values{"token": {token}, "token_type_hint": {hint}}
	config := s.config(r)
	if r.Style != oauth2.AuthStyleInHeader {
		form.Set("client_id", config.ClientID)
		if config.ClientSecret != "" {
			form.Set("client_secret", config.ClientSecret)
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.Revoke, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if r.Style == oauth2.AuthStyleInHeader {
		request.SetBasicAuth(url.QueryEscape(config.ClientID), url.QueryEscape(config.ClientSecret)) // RFC 6749, section 2.3.1
	}
	answer, err := s.client.Do(request)
	if err != nil {
		return 0, err
	}
	drain(answer.Body)
	return answer.StatusCode, nil
}
