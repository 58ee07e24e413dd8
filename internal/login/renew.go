package login

import (
	"context"
	"errors"
	"time"

	"golang.org/x/oauth2"

	"github.com/onecall-mcp/onecall/fault"
)

// renew finds a token in place of the stale one. A renewal that has begun is not given up when its caller goes: the
// authorization server may have made the old refresh token worthless already, and the new one must be kept.
func (h *handler) renew(ctx context.Context, stale string) (*record, error) {
	done := h.flight.DoChan("renew "+stale, func() (any, error) {
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewTimeout)
		defer cancel()
		return h.renewAlone(own, stale)
	})
	select {
	case result := <-done:
		r, _ := result.Val.(*record)
		return r, result.Err
	case <-ctx.Done():
		return nil, trouble("server \""+h.o.Source+"\": its login was not renewed", ctx.Err())
	}
}

// renewAlone does the work of renew under the store's lock, which no other process holds then: whoever comes second finds
// the first one's token and uses that.
func (h *handler) renewAlone(ctx context.Context, stale string) (*record, error) {
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
		h.know(nil)
		return nil, h.deny("you are not logged in any more: %s", h.remedy())
	case r.Access != stale && r.fresh(now):
		h.know(r)
		return r, nil
	case r.fresh(now) && now.Sub(r.Obtained) < time.Minute:
		// A new token would be refused as well; asking on would rotate tokens at every call.
		return nil, h.deny("it does not accept the token that %s has just given: %s, and if that does not help ask who runs the server", hostOf(r.Issuer), h.remedy())
	case r.Refresh == "":
		return nil, h.deny("the login has ended, and %s gave no means to renew it: %s", hostOf(r.Issuer), h.remedy())
	}
	renewed, err := h.refresh(ctx, r)
	if err != nil {
		return h.overtaken(ctx, r, err)
	}
	h.know(renewed)
	h.store(ctx, r.Access, renewed)
	return renewed, nil
}

// refresh asks for new tokens with the refresh token. A dead grant is an error of type *deadGrant.
func (h *handler) refresh(ctx context.Context, r *record) (*record, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	config := h.config(r)
	token, err := config.TokenSource(h.client.within(ctx, r.Resource), &oauth2.Token{RefreshToken: r.Refresh}).Token()
	if err != nil {
		dead, coded := h.refusal(r, err, r.Refresh, r.Access, config.ClientSecret)
		if dead {
			return nil, &deadGrant{coded}
		}
		return nil, coded
	}
	renewed := *r
	if err := h.take(&renewed, token, h.now()); err != nil {
		return nil, err
	}
	return &renewed, nil
}

// deadGrant says that the refresh token, or its client, is worth nothing any more.
type deadGrant struct{ coded *fault.Error }

// Error implements error.
func (e *deadGrant) Error() string { return e.coded.Error() }

// Unwrap gives the coded error.
func (e *deadGrant) Unwrap() error { return e.coded }

// overtaken looks again before a dead grant is reported: where locks do not reach (a folder shared by machines), another
// process may have used the refresh token and stored its successor.
func (h *handler) overtaken(ctx context.Context, r *record, err error) (*record, error) {
	var dead *deadGrant
	if !errors.As(err, &dead) {
		return nil, err
	}
	if again, _ := h.load(ctx); again != nil && again.Access != r.Access && again.fresh(h.now()) {
		h.know(again)
		return again, nil
	}
	return nil, dead.coded
}

// latest is the login in the store, or the one that belongs in its place.
func (h *handler) latest(ctx context.Context) (*record, error) {
	h.mu.Lock()
	kept := h.unsaved
	h.mu.Unlock()
	r, err := h.load(ctx)
	if kept == nil {
		return r, err
	}
	if changed := err == nil && (r == nil || r.Access != kept.before); changed {
		h.forget()
		return r, nil
	}
	return kept.login, nil
}

// store writes a renewed login. Where the store does not take it, it is kept, and tried again later: the calls go on.
func (h *handler) store(ctx context.Context, before string, r *record) {
	if h.save(ctx, r) == nil {
		h.forget()
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unsaved != nil {
		before = h.unsaved.before
	}
	h.unsaved = &unsaved{before: before, login: r, again: h.now().Add(time.Second)}
}

// saveLate tries again to store what the store did not take, unless the login there has changed since.
func (h *handler) saveLate() {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	unlock, err := h.o.Store.Lock(ctx, h.key())
	if err != nil {
		return
	}
	defer unlock()
	h.mu.Lock()
	kept := h.unsaved
	h.mu.Unlock()
	if kept == nil {
		return
	}
	r, err := h.load(ctx)
	switch {
	case err != nil:
	case r == nil || r.Access != kept.before:
		h.forget()
	case h.save(ctx, kept.login) == nil:
		h.forget()
	}
}

func (h *handler) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unsaved = nil
}
