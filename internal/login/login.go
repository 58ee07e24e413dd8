package login

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/onecall-mcp/onecall/fault"
)

// Login goes through the whole flow with a person and stores what it gives; a login that was there before is replaced
// only when the new one is complete. It waits for the person at most ten minutes.
//
// Errors: bad_request (options; a server that asks for no login), denied (an unsafe server, or the authorization server
// or the person said no), unavailable, timeout, cancelled, and those of the store.
func Login(ctx context.Context, o *Options, ui UI) error {
	s, err := newServer(o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, loginTimeout)
	defer cancel()
	where, err := s.discover(ctx)
	if err != nil {
		return err
	}
	back, err := s.listen(ctx, where.meta)
	if err != nil {
		return err
	}
	defer back.close()
	before, _ := s.load(ctx) // for the scopes that it lacked; what cannot be read is replaced
	r, err := s.register(ctx, where, back.redirect, s.scopes(where, before))
	if err != nil {
		return err
	}
	if err := s.authorize(ctx, where, r, back, ui); err != nil {
		return err
	}
	return s.keep(ctx, r)
}

// scopes are what to ask for: the configured ones exactly; else those that the server names and those that it asked for
// later, with offline_access where the authorization server has it, without which many give no refresh token.
func (s *server) scopes(where *place, before *record) []string {
	if len(s.o.Scopes) > 0 {
		return slices.Clone(s.o.Scopes)
	}
	ask := slices.Clone(where.scopes)
	if before != nil && len(before.Wanted) > 0 {
		ask = append(append(ask, before.Scopes...), before.Wanted...)
	}
	if slices.Contains(where.meta.ScopesSupported, "offline_access") {
		ask = append(ask, "offline_access")
	}
	slices.Sort(ask)
	return slices.Compact(ask)
}

// register settles who the client is: the configured one, or one that is registered now.
func (s *server) register(ctx context.Context, where *place, redirect string, scopes []string) (*record, error) {
	meta := where.meta
	r := &record{Version: recordVersion, Server: s.endpoint, Client: s.o.ClientID, Issuer: meta.Issuer, Resource: where.resource,
		TokenURL: meta.TokenEndpoint, Revoke: meta.RevocationEndpoint, Scopes: scopes}
	document := isDocument(s.o.ClientID)
	switch {
	case s.o.ClientID != "" && (!document || meta.ClientIDMetadataDocumentSupported):
		style, err := s.style(meta.TokenEndpointAuthMethodsSupported)
		r.ClientID, r.Style = s.o.ClientID, style
		return r, err
	case meta.RegistrationEndpoint == "" && document:
		return nil, s.deny("%s neither reads client ID metadata documents nor registers clients: register one there and configure its client ID", hostOf(meta.Issuer))
	case meta.RegistrationEndpoint == "":
		return nil, s.deny("%s does not register clients by itself: register one there, with the redirect URI %s, and configure its client ID and the redirect port",
			hostOf(meta.Issuer), redirect)
	}
	answer, err := oauthex.RegisterClient(ctx, meta.RegistrationEndpoint, &oauthex.ClientRegistrationMetadata{
		RedirectURIs: []string{redirect}, TokenEndpointAuthMethod: "none", ApplicationType: "native",
		GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
		ClientName: s.o.ClientName, Scope: strings.Join(scopes, " "),
	}, &s.client.Client)
	if err != nil {
		return nil, s.unregistered(hostOf(meta.Issuer), err)
	}
	r.ClientID, r.ClientSecret, r.Style = answer.ClientID, answer.ClientSecret, oauth2.AuthStyleInParams
	if m := answer.TokenEndpointAuthMethod; answer.ClientSecret != "" && (m == "" || m == "client_secret_basic") {
		r.Style = oauth2.AuthStyleInHeader
	}
	return r, nil
}

// unregistered codes an error of the registration. Its text is shown only where the server spoke in the words of RFC 7591
// (section 3.2.2) or never answered: else the SDK puts the whole answer into it, secrets included.
func (s *server) unregistered(host string, err error) error {
	var said *oauthex.ClientRegistrationError
	switch answered := s.client.guard.answered.Load(); {
	case errors.As(err, &said):
		return s.deny("%s does not register onecall (%s %s): register a client there and configure its client ID", host,
			words(said.ErrorCode), words(said.ErrorDescription))
	case answered == 0 || isCoded(err):
		return trouble("onecall could not be registered at "+host, err)
	case answered >= 500:
		return fault.New(fault.Unavailable, "%s answers a registration with status %d: try again later", host, answered)
	default:
		return s.deny("%s does not register onecall (status %d): register a client there and configure its client ID", host, answered)
	}
}

func isCoded(err error) bool { _, coded := fault.As(err); return coded }

// isDocument tells whether a client ID is the URL of a client ID metadata document.
func isDocument(id string) bool {
	u, err := url.Parse(id)
	return err == nil && u.Scheme == "https" && u.Host != "" && len(u.Path) > 1
}

// style is how the configured client proves itself: by nothing where it has no secret; else in the header, the default of
// RFC 8414, or in the form where only that is offered.
func (s *server) style(methods []string) (oauth2.AuthStyle, error) {
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

// authorize sends the person to the authorization server, waits for the code and exchanges it: the record then holds
// tokens.
func (s *server) authorize(ctx context.Context, where *place, r *record, back *callback, ui UI) error {
	config := s.config(r)
	config.RedirectURL, config.Endpoint.AuthURL = back.redirect, where.meta.AuthorizationEndpoint
	verifier := oauth2.GenerateVerifier()
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(verifier), oauth2.SetAuthURLParam("resource", r.Resource)}
	if slices.Contains(r.Scopes, "offline_access") {
		options = append(options, oauth2.SetAuthURLParam("prompt", "consent")) // OpenID Connect Core, section 11
	}
	address := config.AuthCodeURL(back.state, options...)
	ui.Notice("Waiting for you to log in at " + hostOf(where.meta.Issuer) + " in the browser.")
	if err := ui.Open(address); err != nil {
		ui.Notice("No browser could be opened. Open this address yourself: " + address)
	}
	code, err := back.wait(ctx)
	if err != nil {
		return err
	}
	token, err := config.Exchange(s.client.within(ctx, r.Resource), code, oauth2.VerifierOption(verifier))
	if err != nil {
		_, err = s.refusal(r, err, code, verifier, config.ClientSecret)
		return err
	}
	return s.take(r, token, time.Now())
}

// refusal codes an error of the token endpoint, and tells whether the grant itself is dead (RFC 6749, section 5.2).
func (s *server) refusal(r *record, err error, secrets ...string) (dead bool, coded *fault.Error) {
	var said *oauth2.RetrieveError
	host := hostOf(r.TokenURL)
	if !errors.As(err, &said) {
		return false, trouble("server \""+s.o.Source+"\": no token came from "+host, err, secrets...)
	}
	if said.Response != nil && (said.Response.StatusCode >= 500 || said.Response.StatusCode == 429) {
		return false, fault.New(fault.Unavailable, "server %q: %s answers with status %d: try again later", s.o.Source, host, said.Response.StatusCode)
	}
	what := strings.TrimSpace(words(said.ErrorCode, secrets...) + " " + words(said.ErrorDescription, secrets...))
	if what == "" {
		what = "without a reason"
	}
	switch said.ErrorCode {
	case "invalid_grant", "invalid_client", "unauthorized_client":
		dead = true
	}
	return dead, s.deny("%s gives no token (%s): %s", host, what, s.remedy())
}

// keep stores a complete login, under the lock that renewals take.
func (s *server) keep(ctx context.Context, r *record) error {
	unlock, err := s.o.Store.Lock(ctx, s.key())
	if err != nil {
		return err
	}
	defer unlock()
	return s.save(ctx, r)
}

// random is an unguessable text.
func random() string { return rand.Text() }
