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

// State is what is known of a login without asking anybody.
type State struct {
	LoggedIn bool      // there is a token that has not ended, or one that can be renewed
	Renews   bool      // the login renews itself
	Expires  time.Time // when the access token ends; zero: unknown
	Scopes   []string  // that the login has
	Wanted   []string  // that the server has asked for since, and that the next login will ask for
	Issuer   string    // of the authorization server
	Store    string    // where the login is kept: "keyring" or "file"
}

// Status reads the stored login. Its zero State, but for Store, means that there is none. Errors: bad_request, and those
// of the store.
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
	state.Expires, state.Scopes, state.Wanted, state.Issuer = r.Expires, slices.Clone(r.Scopes), slices.Clone(r.Wanted), r.Issuer
	return state, nil
}

// Logout revokes the tokens where the authorization server offers that (RFC 7009), then deletes them. They are deleted
// even where the revocation fails, which is then told: unavailable. Without a login it does nothing. Other errors:
// bad_request, and those of the store.
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
	r, _ := s.load(ctx) // what cannot be read is deleted all the same
	var told error
	if r != nil && r.Revoke != "" {
		told = s.revoke(ctx, r)
	}
	if err := s.o.Store.Delete(ctx, s.key()); err != nil {
		return err
	}
	return told
}

// revoke tells the authorization server that the tokens are not needed any more. The refresh token goes first: with it
// most servers end all that came from it.
func (s *server) revoke(ctx context.Context, r *record) error {
	for _, token := range []struct{ hint, text string }{{"refresh_token", r.Refresh}, {"access_token", r.Access}} {
		if token.text == "" {
			continue
		}
		if status, err := s.postRevoke(ctx, r, token.hint, token.text); err != nil || status != http.StatusOK {
			f := fault.New(fault.Unavailable, "server %q: the login is deleted here, but %s did not confirm that its tokens are revoked", s.o.Source, hostOf(r.Revoke))
			f.Status = status
			return f
		}
	}
	return nil
}

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
