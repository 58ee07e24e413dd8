package redisconn

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// TestBreaker: after a timeout, other operations fail at once with the error of that timeout. Every half second one short operation tries
// the server, and any answer closes the breaker. If the caller of that operation leaves first, the next short operation tries.
func TestBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker()
		timedOut := &fault.Error{Code: fault.Unavailable, Err: &timeoutError{"timed out"}}
		refused := &fault.Error{Code: fault.Unavailable, Err: errors.New("refused")}
		callerLeft := []error{context.Canceled, context.DeadlineExceeded, ErrClosed}
		// runs checks that a short operation is run, and that run returns its error.
		runs := func(want error) {
			t.Helper()
			ran := false
			if err := b.openError(true); err != nil {
				t.Fatalf("openError for a short operation returns %v, want nil", err)
			}
			err := b.run(func() error { ran = true; return want })
			if !ran || !errors.Is(err, want) {
				t.Fatalf("run called the operation: %t, want true; it returned %v, want %v", ran, err, want)
			}
		}
		// fails checks that an operation fails without being run.
		fails := func() {
			t.Helper()
			err := b.run(func() error { t.Error("an operation ran while the breaker was open"); return nil })
			if !errors.Is(err, timedOut) {
				t.Fatalf("run returned %v while the breaker was open, want the error of the timeout", err)
			}
		}
		for _, err := range append([]error{nil, refused}, callerLeft...) { // none of these opens the breaker
			runs(err)
		}
		runs(timedOut)
		for range 3 {
			fails()
			time.Sleep(retryAfter)
			fails()
			if err := b.openError(true); !errors.Is(err, timedOut) {
				t.Errorf("openError for a short operation returns %v before the time for a trial, want the error of the timeout", err)
			}
			time.Sleep(time.Nanosecond) // now it is time for a trial
			if err := b.openError(false); !errors.Is(err, timedOut) {
				t.Errorf("openError for a long operation returns %v at the time for a trial, want the error of the timeout", err)
			}
			err := b.run(func() error {
				fails()
				time.Sleep(time.Hour)
				fails()
				return timedOut
			})
			if !errors.Is(err, timedOut) {
				t.Errorf("run returned %v for the trial, want the trial's own error, a timeout", err)
			}
		}
		time.Sleep(retryAfter + time.Nanosecond)
		for _, err := range callerLeft { // this says nothing about the server, so the next operation tries it
			runs(err)
			if !errors.Is(b.openError(false), timedOut) {
				t.Errorf("the breaker is closed after a trial that ended with %v, want it open", err)
			}
		}
		runs(refused) // an answer, which closes the breaker
		for range 2 {
			if err := b.openError(false); err != nil {
				t.Errorf("openError for a long operation returns %v after an answer, want nil", err)
			}
			runs(nil)
		}
	})
}
