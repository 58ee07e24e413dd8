package redisclient

import (
	"context"
	"errors"
	"sync"
	"time"
)

// rest is how long nobody asks a server that gave no answer in time.
const rest = 500 * time.Millisecond

// breaker spares operations the wait for a server that does not answer: after one that waited in vain others fail at once,
// with its error, until one that tries every now and then has an answer. A server that refuses, or is not there, costs no
// wait, and is asked each time. The zero value lets all pass.
type breaker struct {
	mu     sync.Mutex
	err    error // nil: the server answers, as far as is known
	until  time.Time
	trying bool
}

// broken is the error of an operation that should not even wait for a connection.
func (b *breaker) broken() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil && (b.trying || time.Now().Before(b.until)) {
		return b.err
	}
	return nil
}

// enter begins an operation, or fails it; trial: others fail meanwhile.
func (b *breaker) enter() (trial bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		return false, nil
	}
	if b.trying || time.Now().Before(b.until) {
		return false, b.err
	}
	b.trying = true
	return true, nil
}

// leave ends an operation that had begun, with its error for its caller, whose context is ctx: that it left tells nothing of
// the server.
func (b *breaker) leave(ctx context.Context, trial bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trying = b.trying && !trial
	var late *lateError
	switch {
	case errors.As(err, &late):
		b.err, b.until = err, time.Now().Add(rest)
	case ctx.Err() == nil && !errors.Is(err, ErrClosed):
		b.err = nil
	}
}

// lateError is that a server did not answer in time.
type lateError struct{ said string }

func (e *lateError) Error() string { return e.said }
