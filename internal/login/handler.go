package login

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"github.com/onecall-mcp/onecall/fault"
)

// Handler returns a handler that provides the stored login of a server to the SDK's StreamableClientTransport. The handler renews the
// access token before it expires and when the server refuses it, in one process at a time. It never opens a browser: if a login is
// needed, calls fail with denied and a message that names the command. Without a login it sends requests without a token, which servers
// without logins accept. It is safe for concurrent use.
//
// Errors of Handler itself: bad_request (options), denied (a URL that tokens are not sent to).
func Handler(o *Options) (auth.OAuthHandler, error) {
	s, err := newServer(o)
	if err != nil {
		return nil, err
	}
	return &handler{server: s, now: time.Now}, nil
}

type handler struct {
	*server
	now    func() time.Time
	flight singleflight.Group // lets concurrent callers share one renewal of a token, one first load, and one late save

	mu        sync.Mutex
	loaded    bool
	current   *record   // the login as last read or renewed; nil: there is no login
	saveAgain time.Time // when to try again to store current; zero: it is stored
	dead      string    // the access token of a login that could not be renewed since its grant is not valid any more; "": there is none
}

// TokenSource implements auth.OAuthHandler.
func (h *handler) TokenSource(ctx context.Context) (oauth2.TokenSource, error) {
	return &source{ctx, h}, nil
}

type source struct {
	ctx context.Context
	h   *handler
}

// Token implements oauth2.TokenSource; nil without an error: no login.
func (t *source) Token() (*oauth2.Token, error) {
	r := t.h.currentLogin(t.ctx)
	if r == nil {
		return nil, nil
	}
	r, err := t.h.usable(t.ctx, r)
	if err != nil {
		return nil, err
	}
	return &oauth2.Token{AccessToken: r.Access, TokenType: "Bearer", Expiry: r.Expires}, nil
}

// usable returns the login with a token that may be sent.
func (h *handler) usable(ctx context.Context, r *record) (*record, error) {
	if r.fresh(h.now()) {
		return r, nil
	}
	renewed, err := h.renew(ctx, r.Access)
	if err != nil && fault.CodeOf(err).Retryable() && h.now().Before(r.Expires) {
		return r, nil // it was early: while the authorization server is unavailable, the old token is used until it expires
	}
	return renewed, err
}

// currentLogin returns the login as this process knows it; it reads the store only once. A store that cannot be read counts as
// no login, because servers without logins must still work; Authorize reads it again and reports the error.
func (h *handler) currentLogin(ctx context.Context) *record {
	h.mu.Lock()
	loaded := h.loaded
	h.mu.Unlock()
	if !loaded {
		done := h.flight.DoChan("load", func() (any, error) { h.loadFirst(context.WithoutCancel(ctx)); return nil, nil })
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.saveAgain.IsZero() && h.now().After(h.saveAgain) {
		h.saveAgain = h.now().Add(10 * time.Second)
		h.flight.DoChan("save", func() (any, error) { h.saveLate(); return nil, nil })
	}
	return h.current
}

// loadFirst reads the login from the store for the first time. An error counts as no login.
func (h *handler) loadFirst(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r, _ := h.load(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.loaded { // a renewal may have been faster
		h.current, h.loaded = r, true
	}
}

// setCurrent sets the current login; nil: there no longer is one. If the login changes, the previous one no longer needs to be stored.
func (h *handler) setCurrent(r *record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r != h.current {
		h.saveAgain = time.Time{}
	}
	h.current, h.loaded = r, true
}

// Authorize implements auth.OAuthHandler. After a refused request it obtains another token, or returns an error that says what the person
// must do. Errors: denied, and unavailable, timeout or cancelled from a renewal or the store.
func (h *handler) Authorize(ctx context.Context, request *http.Request, answer *http.Response) error {
	defer drain(answer.Body)
	sent := strings.TrimPrefix(request.Header.Get("Authorization"), "Bearer ")
	if answer.StatusCode != http.StatusForbidden {
		_, err := h.renew(ctx, sent)
		return err
	}
	challenges := challengesOf(answer.Header)
	if challengeParam(challenges, "error") != "insufficient_scope" {
		f := h.deny("it refuses the request (status 403)")
		f.Status, f.Body = answer.StatusCode, bodyForError(answer.Body, sent)
		return f
	}
	return h.recordMissingScopes(ctx, scopesOf(challengeParam(challenges, "scope"), sent))
}

// maxScopes bounds the bytes of the scopes in a challenge, and of those that a login lacks.
const maxScopes = 4 << 10

// scopesOf returns the scopes in a challenge (RFC 6749, section 3.3). It returns none if they are longer than maxScopes, are not printable
// ASCII, or repeat the token.
func scopesOf(text, token string) []string {
	printable := !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
	if len(text) > maxScopes || !printable || token != "" && strings.Contains(text, token) {
		return nil
	}
	return strings.Fields(text)
}

// recordMissingScopes records the scopes that a server requires beyond those of the login; the next login requests them. It always returns
// an error, which says what the person must do.
func (h *handler) recordMissingScopes(ctx context.Context, scopes []string) error {
	list := strings.Join(scopes, " ")
	switch {
	case list == "":
		return h.deny("the login lacks a right that this call needs: %s with more scopes in the configuration", h.remedy())
	case len(h.o.Scopes) > 0:
		return h.deny("the login lacks the scopes %q: add them to its scopes in the configuration, and %s", clean(list), h.remedy())
	}
	unlock, err := h.o.Store.Lock(ctx, h.key())
	if err != nil {
		return err
	}
	defer unlock()
	r, err := h.load(ctx)
	if err != nil {
		return err
	}
	if r != nil {
		have := len(r.MissingScopes)
		for _, scope := range scopes {
			known := slices.Contains(r.MissingScopes, scope)
			if !known && len(strings.Join(r.MissingScopes, " "))+1+len(scope) <= maxScopes {
				r.MissingScopes = append(r.MissingScopes, scope)
			}
		}
		if len(r.MissingScopes) > have {
			if err := h.save(ctx, r); err != nil {
				return err
			}
		}
	}
	return h.deny("the login lacks the scopes %q: %s, which asks for them", clean(list), h.remedy())
}

// bodyForError returns a body as an error may show it: JSON as it is, any other text cleaned and as a JSON string. It returns nil if the
// body is empty, longer than 4 KiB, cannot be read, or repeats the token.
func bodyForError(body io.Reader, token string) []byte {
	text, err := io.ReadAll(io.LimitReader(body, 4<<10+1))
	if err != nil || len(text) == 0 || len(text) > 4<<10 || token != "" && strings.Contains(string(text), token) {
		return nil
	}
	if json.Valid(text) {
		return text
	}
	quoted, err := json.Marshal(clean(string(text)))
	if err != nil {
		return nil
	}
	return quoted
}
