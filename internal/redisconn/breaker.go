package redisconn

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// retryAfter is how long a server that timed out is left alone.
const retryAfter = 500 * time.Millisecond

// breaker keeps operations from waiting for a server that hangs. After a timeout, other operations fail at once with its error, and every
// half second one short operation tries the server again. A server that refuses connections or commands causes no wait, so it is always
// tried.
type breaker struct {
	circuit *gobreaker.CircuitBreaker[struct{}]
	last    atomic.Pointer[error] // the error of the last operation that timed out
}

func newBreaker() *breaker {
	return &breaker{circuit: gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:      retryAfter,
		ReadyToTrip:  func(gobreaker.Counts) bool { return true }, // at the first timeout
		IsSuccessful: func(err error) bool { return !isTimeoutError(err) },
		// If the caller left or closed the client, that says nothing about the server.
		IsExcluded: func(err error) bool {
			return !isTimeoutError(err) &&
				(errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrClosed))
		},
	})}
}

// openError returns the error of an operation that should not even wait for a connection; nil: it may wait. While the server is left
// alone, a long operation never is the one that tries it again, because all others would wait for it. brief says that the operation ends
// within Options.Timeout.
func (b *breaker) openError(brief bool) error {
	if state := b.circuit.State(); state == gobreaker.StateOpen || state == gobreaker.StateHalfOpen && !brief {
		return *b.last.Load()
	}
	return nil
}

// run runs an operation or, while the server is left alone, returns the error of the last timeout.
func (b *breaker) run(operation func() error) error {
	_, err := b.circuit.Execute(func() (struct{}, error) {
		err := operation()
		if isTimeoutError(err) {
			b.last.Store(&err) // before the circuit opens
		}
		return struct{}{}, err
	})
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return *b.last.Load()
	}
	return err
}

// timeoutError means that a server did not answer in time.
type timeoutError struct{ message string }

func (e *timeoutError) Error() string { return e.message }

func isTimeoutError(err error) bool {
	var timeout *timeoutError
	return errors.As(err, &timeout)
}
