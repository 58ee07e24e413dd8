package login

import (
	"context"
	"net/url"
	"slices"
	"time"

	"golang.org/x/oauth2"

	"github.com/onecall-mcp/onecall/fault"
)

// Flow is a login that has begun: a person is to log in at URL, and the answer comes by the redirect.
type Flow struct {
	*expected
	server            *server
	record            *record
	config            *oauth2.Config
	address, verifier string
}

// Begin begins a login whose answer comes to a page of the program, at redirect. The caller finds the flow by its State and calls Finish,
// once. Errors: those of Login.
func Begin(ctx context.Context, o *Options, redirect string) (*Flow, error) {
	s, err := newServer(o)
	if err != nil {
		return nil, err
	}
	discovered, err := s.discover(ctx)
	if err != nil {
		return nil, err
	}
	return s.begin(ctx, discovered, s.expect(discovered.meta), redirect)
}

// begin prepares the login whose answer is expected at redirect. The earlier login, if there is one, says which scopes it lacked; one that
// cannot be read is replaced.
func (s *server) begin(ctx context.Context, discovered *discovery, e *expected, redirect string) (*Flow, error) {
	before, _ := s.load(ctx)
	r, err := s.register(ctx, discovered, redirect, s.scopes(discovered, before))
	if err != nil {
		return nil, err
	}
	f := &Flow{expected: e, server: s, record: r, config: s.config(r), verifier: oauth2.GenerateVerifier()}
	f.config.RedirectURL, f.config.Endpoint.AuthURL = redirect, discovered.meta.AuthorizationEndpoint
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(f.verifier)}
	if r.Resource != "" {
		options = append(options, oauth2.SetAuthURLParam("resource", r.Resource))
	}
	if slices.Contains(r.Scopes, "offline_access") {
		options = append(options, oauth2.SetAuthURLParam("prompt", "consent")) // OpenID Connect Core, section 11
	}
	f.address = f.config.AuthCodeURL(e.state, options...)
	return f, nil
}

// URL returns the address of the page on which the person logs in.
func (f *Flow) URL() string { return f.address }

// Host returns the host of the authorization server, for messages.
func (f *Flow) Host() string { return hostOf(f.issuer) }

// State returns what identifies the login in its answer. It cannot be guessed.
func (f *Flow) State() string { return f.state }

// Finish takes the answer: the query with which the browser came to the redirect. The login is stored if it is complete. Errors: denied
// (the answer does not belong to the login, or nobody was let in), and those of Login.
func (f *Flow) Finish(ctx context.Context, query url.Values) error {
	if !f.matches(query) {
		return fault.New(fault.Denied, "server \"%s\": the answer belongs to another login", f.source)
	}
	answer := f.read(query)
	if answer.err != nil {
		return answer.err
	}
	return f.exchange(ctx, answer.code)
}

// exchange exchanges the code of the answer for tokens, and stores the login.
func (f *Flow) exchange(ctx context.Context, code string) error {
	s := f.server
	token, err := f.config.Exchange(s.client.withContext(ctx, f.record.Resource), code, oauth2.VerifierOption(f.verifier))
	if err != nil {
		_, err = s.tokenError(f.record, err, code, f.verifier, f.config.ClientSecret)
		return err
	}
	if err := s.setTokens(f.record, token, time.Now()); err != nil {
		return err
	}
	return s.store(ctx, f.record)
}
