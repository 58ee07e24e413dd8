package redisconn

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

// isOpen tells whether the server did not answer when it was asked last.
func (b *breaker) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err != nil
}

// enter begins an operation, or fails it; trial: others fail meanwhile, so only one that is brief may be that.
func (b *breaker) enter(brief bool) (trial bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		return false, nil
	}
	if b.trying || !brief || time.Now().Before(b.until) {
		return false, b.err
	}
	b.trying = true
	return true, nil
}

// leave ends an operation that had begun, with its error for its caller: that a caller left, or closed the client, tells nothing
// of the server. Its error says so, and not its context, whose end the connection may have noticed first.
func (b *breaker) leave(trial bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trying = b.trying && !trial
	var late *lateError
	switch {
	case errors.As(err, &late):
		b.err, b.until = err, time.Now().Add(rest)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrClosed):
	default:
		b.err = nil
	}
}

// lateError is that a server did not answer in time.
type lateError struct{ said string }

func (e *lateError) Error() string { return e.said }
