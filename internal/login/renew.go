package login

import (
	"context"
	"errors"
	"time"

	"golang.org/x/oauth2"

	"github.com/onecall-mcp/onecall/fault"
)

// renew returns a login with another access token than stale ("": the request was sent without one). A renewal continues after the end of
// its caller's ctx: the authorization server may have invalidated the old refresh token already, so the new one must be stored.
func (h *handler) renew(ctx context.Context, stale string) (*record, error) {
	done := h.flight.DoChan("renew "+stale, func() (any, error) {
		local, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewTimeout)
		defer cancel()
		return h.renewLocked(local, stale)
	})
	select {
	case result := <-done:
		r, _ := result.Val.(*record)
		return r, result.Err
	case <-ctx.Done():
		return nil, codedError("server \""+h.o.Source+"\": its login was not renewed", ctx.Err())
	}
}

// renewLocked does the work of renew under the store's lock across processes: if another process was faster, its token is used.
func (h *handler) renewLocked(ctx context.Context, stale string) (*record, error) {
	unlock, err := h.o.Store.Lock(ctx, h.key())
	if err != nil {
		return nil, err
	}
	defer unlock()
	r, err := h.latest(ctx)
	if err != nil {
		return nil, err
	}
	now := h.now()
	switch {
	case r == nil && stale == "":
		return nil, h.deny("it asks for a login: %s", h.remedy())
	case r == nil:
		h.setCurrent(nil)
		return nil, h.deny("you are not logged in any more: %s", h.remedy())
	case r.Access != stale && r.fresh(now):
		h.setCurrent(r)
		return r, nil
	case r.fresh(now) && now.Sub(r.Obtained) < time.Minute:
		// A new token would be refused as well, and repeating this would rotate tokens at every call.
		return nil, h.deny("it does not accept the token that %s has just given: %s; if that does not help, ask whoever "+
			"runs the server", hostOf(r.Issuer), h.remedy())
	case r.Refresh == "":
		return nil, h.deny("the login has ended, and %s gave no means to renew it: %s", hostOf(r.Issuer), h.remedy())
	}
	renewed, err := h.refresh(ctx, r)
	if err != nil {
		return h.newerLogin(ctx, r, err)
	}
	h.setCurrent(renewed)
	if h.save(ctx, renewed) != nil { // the stored token is dead, so this one must not be lost
		h.mu.Lock()
		defer h.mu.Unlock()
		h.saveAgain = h.now().Add(time.Second)
	}
	return renewed, nil
}

// refresh requests new tokens with the refresh token. A dead grant is an error of type *deadGrant.
func (h *handler) refresh(ctx context.Context, r *record) (*record, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	config := h.config(r)
	token, err := config.TokenSource(h.client.withContext(ctx, r.Resource), &oauth2.Token{RefreshToken: r.Refresh}).Token()
	if err != nil {
		dead, coded := h.tokenError(r, err, r.Refresh, r.Access, config.ClientSecret)
		if dead {
			return nil, &deadGrant{coded}
		}
		return nil, coded
	}
	renewed := *r
	if err := h.setTokens(&renewed, token, h.now()); err != nil {
		return nil, err
	}
	return &renewed, nil
}

// deadGrant reports that the refresh token or its client is no longer valid.
type deadGrant struct{ coded *fault.Error }

// Error implements error.
func (e *deadGrant) Error() string { return e.coded.Error() }

// Unwrap returns the coded error.
func (e *deadGrant) Unwrap() error { return e.coded }

// newerLogin reads the store again if err is a dead grant: where locks do not work (a folder shared by machines), another process may have
// used the refresh token of r and stored its successor. It returns that login, or else the coded error.
func (h *handler) newerLogin(ctx context.Context, r *record, err error) (*record, error) {
	var dead *deadGrant
	if !errors.As(err, &dead) {
		return nil, err
	}
	if again, _ := h.load(ctx); again != nil && again.Access != r.Access && again.fresh(h.now()) {
		h.setCurrent(again)
		return again, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dead = r.Access
	return nil, dead.coded
}

// latest returns the stored login; nil: there is none. If the current login could not be stored, and the store has an older one or cannot
// be read, latest returns the current one.
func (h *handler) latest(ctx context.Context) (*record, error) {
	r, err := h.load(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.saveAgain.IsZero() && (err != nil || r != nil && r.Obtained.Before(h.current.Obtained)) {
		return h.current, nil
	}
	return r, err
}

// saveLate tries again to store the current login, unless the store has a newer one or none any more.
func (h *handler) saveLate() {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	unlock, err := h.o.Store.Lock(ctx, h.key())
	if err != nil {
		return
	}
	defer unlock()
	h.mu.Lock()
	current := h.current
	h.mu.Unlock()
	r, err := h.latest(ctx)
	if err != nil || r == current && h.save(ctx, r) != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.saveAgain = time.Time{}
}
