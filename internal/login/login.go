package login

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/onecall-mcp/onecall/fault"
)

// Login logs a person in and stores the login. An earlier login is replaced only when the new one is complete. Login takes at most ten
// minutes, including the wait for the person.
//
// Errors: bad_request (options, or a server without logins), denied (an unsafe server, or a refusal by the authorization server
// or the person), unavailable, timeout, cancelled, and those of the store.
func Login(ctx context.Context, o *Options, ui UI) error {
	s, err := newServer(o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, loginTimeout)
	defer cancel()
	discovered, err := s.discover(ctx)
	if err != nil {
		return err
	}
	e := s.expect(discovered.meta)
	back, err := s.listen(ctx, e)
	if err != nil {
		return err
	}
	defer back.close()
	f, err := s.begin(ctx, discovered, e, back.redirect)
	if err != nil {
		return err
	}
	ui.Notice("Waiting for you to log in at " + f.Host() + " in the browser.")
	if err := ui.Open(f.URL()); err != nil {
		ui.Notice("No browser could be opened. Open this address yourself: " + f.URL())
	}
	code, err := back.wait(ctx)
	if err != nil {
		return err
	}
	return f.exchange(ctx, code)
}

// scopes returns the scopes to request: exactly the configured ones, if there are any; else those that the server names. If the server
// required further scopes after the earlier login (before), it adds those and the scopes of that login. It adds offline_access if the
// authorization server offers it, because many issue no refresh token without it.
func (s *server) scopes(discovered *discovery, before *record) []string {
	if len(s.o.Scopes) > 0 {
		return slices.Clone(s.o.Scopes)
	}
	ask := slices.Clone(discovered.scopes)
	if before != nil && len(before.MissingScopes) > 0 {
		ask = append(append(ask, before.Scopes...), before.MissingScopes...)
	}
	if slices.Contains(discovered.meta.ScopesSupported, "offline_access") {
		ask = append(ask, "offline_access")
	}
	slices.Sort(ask)
	return slices.Compact(ask)
}

// register returns a record of the login to come, without tokens. Its client is the configured one, or one that register registers.
func (s *server) register(ctx context.Context, discovered *discovery, redirect string, scopes []string) (*record, error) {
	meta := discovered.meta
	r := &record{Version: recordVersion, ID: random(), Server: s.endpoint, Client: s.o.ClientID, Issuer: meta.Issuer,
		Resource: discovered.resource, TokenURL: meta.TokenEndpoint, Revoke: meta.RevocationEndpoint, Scopes: scopes}
	document := isDocument(s.o.ClientID)
	switch {
	case s.o.ClientID != "" && (!document || meta.ClientIDMetadataDocumentSupported):
		style, err := s.authStyle(meta.TokenEndpointAuthMethodsSupported)
		r.ClientID, r.Style = s.o.ClientID, style
		return r, err
	case meta.RegistrationEndpoint == "" && document:
		return nil, s.deny("%s neither reads client ID metadata documents nor registers clients: "+
			"register one there and configure its client ID", hostOf(meta.Issuer))
	case meta.RegistrationEndpoint == "":
		return nil, s.deny("%s has no endpoint to register clients: register one there, with the redirect URI %s, "+
			"and configure its client ID and the redirect port",
			hostOf(meta.Issuer), redirect)
	}
	answer, err := oauthex.RegisterClient(ctx, meta.RegistrationEndpoint, &oauthex.ClientRegistrationMetadata{
		RedirectURIs: []string{redirect}, TokenEndpointAuthMethod: "none", ApplicationType: applicationType(redirect),
		GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
		ClientName: s.o.ClientName, Scope: strings.Join(scopes, " "),
	}, &s.client.Client)
	if err != nil {
		return nil, s.registrationError(hostOf(meta.Issuer), err)
	}
	r.ClientID, r.ClientSecret, r.Style = answer.ClientID, answer.ClientSecret, oauth2.AuthStyleInParams
	if m := answer.TokenEndpointAuthMethod; answer.ClientSecret != "" && (m == "" || m == "client_secret_basic") {
		r.Style = oauth2.AuthStyleInHeader
	}
	return r, nil
}

// applicationType returns the kind of client that has a redirect URI (OpenID Connect Dynamic Client Registration, section 2).
func applicationType(redirect string) string {
	if strings.HasPrefix(redirect, "https://") {
		return "web"
	}
	return "native"
}

// registrationError converts an error of the registration to a coded error. It shows the error's text only if the error has the form of RFC
// 7591, section 3.2.2, is coded, or if there was no response: otherwise the text has the whole response, with its secrets.
func (s *server) registrationError(host string, err error) error {
	var refused *oauthex.ClientRegistrationError
	switch answered := s.client.guard.status.Load(); {
	case errors.As(err, &refused):
		return s.deny("%s does not register onecall (%s %s): register a client there and configure its client ID", host,
			clean(refused.ErrorCode), clean(refused.ErrorDescription))
	case answered == 0 || isCoded(err):
		return codedError("onecall could not be registered at "+host, err)
	case answered >= 500:
		return fault.New(fault.Unavailable, "%s answers a registration with status %d: try again later", host, answered)
	default:
		return s.deny("%s does not register onecall (status %d): register a client there and configure its client ID", host, answered)
	}
}

func isCoded(err error) bool { _, coded := fault.As(err); return coded }

// isDocument reports whether a client ID is the URL of a client ID metadata document.
func isDocument(id string) bool {
	u, err := url.Parse(id)
	return err == nil && u.Scheme == "https" && u.Host != "" && len(u.Path) > 1
}

// authStyle returns how the configured client authenticates: not at all without a secret, else in the header, the default of RFC
// 8414, or in the form if only that is offered.
func (s *server) authStyle(methods []string) (oauth2.AuthStyle, error) {
	switch {
	case s.o.ClientSecret == "":
		return oauth2.AuthStyleInParams, nil
	case len(methods) == 0 || slices.Contains(methods, "client_secret_basic"):
		return oauth2.AuthStyleInHeader, nil
	case slices.Contains(methods, "client_secret_post"):
		return oauth2.AuthStyleInParams, nil
	}
	return 0, s.deny("its authorization server does not accept a client secret: use a client without one")
}

// tokenError converts an error of the token endpoint to a coded error. dead reports whether the grant or its client is no longer valid (RFC
// 6749, section 5.2), so that only a new login helps.
func (s *server) tokenError(r *record, err error, secrets ...string) (dead bool, coded *fault.Error) {
	var refused *oauth2.RetrieveError
	host := hostOf(r.TokenURL)
	if !errors.As(err, &refused) {
		return false, codedError("server \""+s.o.Source+"\": no token from "+host, err, secrets...)
	}
	if refused.Response != nil && (refused.Response.StatusCode >= 500 || refused.Response.StatusCode == 429) {
		return false, fault.New(fault.Unavailable, "server %q: %s answers with status %d: "+
			"try again later", s.o.Source, host, refused.Response.StatusCode)
	}
	what := strings.TrimSpace(clean(refused.ErrorCode, secrets...) + " " + clean(refused.ErrorDescription, secrets...))
	if what == "" {
		what = "without a reason"
	}
	switch refused.ErrorCode {
	case "invalid_grant", "invalid_client", "unauthorized_client":
		dead = true
	}
	return dead, s.deny("%s gives no token (%s): %s", host, what, s.remedy())
}

// store stores a complete login under the lock that renewals take.
func (s *server) store(ctx context.Context, r *record) error {
	unlock, err := s.o.Store.Lock(ctx, s.key())
	if err != nil {
		return err
	}
	defer unlock()
	return s.save(ctx, r)
}

// random returns an unguessable text.
func random() string { return rand.Text() }
