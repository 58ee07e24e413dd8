package redisconn

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// rest is how long a server that did not answer in time is left alone.
const rest = 500 * time.Millisecond

// breaker saves operations the wait for a server that hangs. After an operation that timed out, others fail at once with its
// error; each half second one brief operation tries the server again. A server that refuses, or cannot be reached, costs no
// wait, and is asked each time.
type breaker struct {
	circuit *gobreaker.CircuitBreaker[struct{}]
	last    atomic.Pointer[error] // of the last operation that timed out
}

func newBreaker() *breaker {
	return &breaker{circuit: gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:      rest,
		ReadyToTrip:  func(gobreaker.Counts) bool { return true },
		IsSuccessful: func(err error) bool { return !isLate(err) },
		// That a caller left, or closed the client, says nothing about the server.
		IsExcluded: func(err error) bool {
			return !isLate(err) && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrClosed))
		},
	})}
}

// refuses returns the error of an operation that should not even wait for a connection. A long operation never tries the server,
// as all others would wait for it.
func (b *breaker) refuses(brief bool) error {
	if state := b.circuit.State(); state == gobreaker.StateOpen || state == gobreaker.StateHalfOpen && !brief {
		return *b.last.Load()
	}
	return nil
}

// run runs an operation, or fails it.
func (b *breaker) run(operation func() error) error {
	_, err := b.circuit.Execute(func() (struct{}, error) {
		err := operation()
		if isLate(err) {
			b.last.Store(&err) // before the circuit opens
		}
		return struct{}{}, err
	})
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return *b.last.Load()
	}
	return err
}

// lateError is that a server did not answer in time.
type lateError struct{ said string }

func (e *lateError) Error() string { return e.said }

func isLate(err error) bool {
	var late *lateError
	return errors.As(err, &late)
}
