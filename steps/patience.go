package steps

import (
	"context"
	"errors"
	"sync"
	"time"
)

// patience is a time limit that signs of life put off.
type patience struct {
	context.Context
	limit time.Duration
	ends  time.Time // when nothing puts it off any more

	mu         sync.Mutex
	timer      *time.Timer
	progressed bool
}

type patienceKey struct{}

// maxPatience is how many times its limit a call may take, whatever signs of life it gives.
const maxPatience = 10

// WithPatience returns a context that ends after limit, as one with a deadline. Each sign of life (Alive) begins the limit again, until
// ten times the limit has passed. The caller must call cancel.
func WithPatience(ctx context.Context, limit time.Duration) (_ context.Context, cancel context.CancelFunc) {
	inner, end := context.WithCancelCause(ctx)
	p := &patience{Context: inner, limit: limit, ends: time.Now().Add(maxPatience * limit)}
	p.timer = time.AfterFunc(limit, func() { end(context.DeadlineExceeded) })
	return p, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.timer.Stop()
		end(context.Canceled)
	}
}

// Value implements context.Context.
func (p *patience) Value(key any) any {
	if key == (patienceKey{}) {
		return p
	}
	return p.Context.Value(key)
}

// Err implements context.Context. It is context.DeadlineExceeded if the limit has passed, so that the call timed out, and was not canceled.
func (p *patience) Err() error {
	err := p.Context.Err()
	if err != nil && errors.Is(context.Cause(p.Context), context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return err
}

// Alive returns the function that a source calls when the called service gives a sign of life, such as progress; nil: the call's limit
// cannot be put off.
func Alive(ctx context.Context) func() {
	p, ok := ctx.Value(patienceKey{}).(*patience)
	if !ok {
		return nil
	}
	return p.alive
}

func (p *patience) alive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Err() == nil {
		p.progressed = true
		p.timer.Reset(min(p.limit, time.Until(p.ends)))
	}
}

// Progressed reports whether the limit of WithPatience was put off, and to what at most.
func Progressed(ctx context.Context) (most time.Duration, ok bool) {
	p, ok := ctx.Value(patienceKey{}).(*patience)
	if !ok {
		return 0, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return maxPatience * p.limit, p.progressed
}

// WithLimit returns the context of one call of a function; limit 0: none.
func WithLimit(ctx context.Context, limit time.Duration, patient bool) (context.Context, context.CancelFunc) {
	switch {
	case limit <= 0:
		return ctx, func() {}
	case patient:
		return WithPatience(ctx, limit)
	}
	return context.WithTimeout(ctx, limit)
}
