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

// Handler gives a connection the stored login of a server, for the SDK's StreamableClientTransport. The access token is
// renewed before it ends and when the server refuses it, by one process at a time. It never opens a browser: where a
// login is needed, calls fail with denied and a message that names the command. Without a login, requests go out without
// a token, so that a server that asks for none works. It may be used by many connections at once.
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
	flight singleflight.Group // renewals of one token: those who need it wait for the one that runs

	mu        sync.Mutex
	loaded    bool
	current   *record   // as last read or renewed; nil: no login
	saveAgain time.Time // when to try again to store current, which the store did not take; zero: it is stored
}

// TokenSource implements auth.OAuthHandler.
func (h *handler) TokenSource(ctx context.Context) (oauth2.TokenSource, error) {
	return &source{ctx, h}, nil
}

type source struct {
	ctx context.Context
	h   *handler
}

// Token implements oauth2.TokenSource; nil without an error where there is no login.
func (t *source) Token() (*oauth2.Token, error) {
	r := t.h.known(t.ctx)
	if r == nil {
		return nil, nil
	}
	if !r.fresh(t.h.now()) {
		renewed, err := t.h.renew(t.ctx, r.Access)
		switch {
		case err == nil:
			r = renewed
		case !fault.CodeOf(err).Retryable() || !t.h.now().Before(r.Expires):
			return nil, err
		}
		// The renewal came early: while its server is away, what is left of the old token's life is used.
	}
	return &oauth2.Token{AccessToken: r.Access, TokenType: "Bearer", Expiry: r.Expires}, nil
}

// known is the login as this process knows it; the store is read the first time only. A store that cannot be read is no
// login here: servers that ask for none must not suffer from it. Where one is asked for, Authorize reads again and tells.
func (h *handler) known(ctx context.Context) *record {
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

func (h *handler) loadFirst(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r, _ := h.load(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.loaded { // else a renewal knows better
		h.current, h.loaded = r, true
	}
}

func (h *handler) know(r *record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r != h.current {
		h.saveAgain = time.Time{}
	}
	h.current, h.loaded = r, true
}

// Authorize implements auth.OAuthHandler: after an answer that refuses a request it finds another token, or says what a
// person must do. Errors: denied, and unavailable, timeout, cancelled of a renewal or of the store.
func (h *handler) Authorize(ctx context.Context, request *http.Request, answer *http.Response) error {
	defer drain(answer.Body)
	sent := strings.TrimPrefix(request.Header.Get("Authorization"), "Bearer ")
	if answer.StatusCode != http.StatusForbidden {
		_, err := h.renew(ctx, sent)
		return err
	}
	challenges := challengesOf(answer.Header)
	if challenged(challenges, "error") != "insufficient_scope" {
		f := h.deny("it refuses the request (status 403)")
		f.Status, f.Body = answer.StatusCode, shown(answer.Body, sent)
		return f
	}
	return h.lacks(ctx, strings.Fields(words(challenged(challenges, "scope"), sent)))
}

// lacks remembers the scopes that a server asks for beyond those of the login: the next login asks for them.
func (h *handler) lacks(ctx context.Context, scopes []string) error {
	list := strings.Join(scopes, " ")
	switch {
	case list == "":
		return h.deny("the login lacks a right that this call needs: %s with more scopes in the configuration", h.remedy())
	case len(h.o.Scopes) > 0:
		return h.deny("the login lacks the scopes %q: add them to its scopes in the configuration, and %s", list, h.remedy())
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
		have := len(r.Wanted)
		for _, scope := range scopes {
			if !slices.Contains(r.Wanted, scope) && len(r.Wanted) < 100 {
				r.Wanted = append(r.Wanted, scope)
			}
		}
		if len(r.Wanted) > have {
			if err := h.save(ctx, r); err != nil {
				return err
			}
		}
	}
	return h.deny("the login lacks the scopes %q: %s, which asks for them", list, h.remedy())
}

// shown is a body as an error may carry it: JSON of at most 4 KiB; nil where it is longer, or repeats the token.
func shown(body io.Reader, token string) []byte {
	text, err := io.ReadAll(io.LimitReader(body, 4<<10+1))
	if err != nil || len(text) == 0 || len(text) > 4<<10 || token != "" && strings.Contains(string(text), token) {
		return nil
	}
	if json.Valid(text) {
		return text
	}
	quoted, err := json.Marshal(words(string(text)))
	if err != nil {
		return nil
	}
	return quoted
}
