package redisconn

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// TestBreaker: after a timeout other operations fail at once with its error. Every half second one short operation tries the server, and
// any answer closes the breaker. A caller that leaves does not count as an answer.
func TestBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker()
		late := &fault.Error{Code: fault.Unavailable, Err: &timeoutError{"late"}}
		passes := func(answer error) {
			t.Helper()
			ran := false
			waits := b.openError(true) == nil
			err := b.run(func() error { ran = true; return answer })
			if !waits || !ran || !errors.Is(err, answer) {
				t.Fatalf("allowed to wait: %t, ran: %t, want both; got %v, want %v", waits, ran, err, answer)
			}
		}
		fails := func() {
			t.Helper()
			if err := b.run(func() error { t.Error("an operation ran while the breaker was open"); return nil }); !errors.Is(err, late) {
				t.Fatalf("got %v, want the error of the operation that timed out", err)
			}
		}
		answers := []error{nil, &fault.Error{Code: fault.Unavailable, Err: errors.New("refused")}, ErrClosed}
		left := []error{context.Canceled, context.DeadlineExceeded, ErrClosed}
		for _, err := range append(answers, left...) {
			passes(err)
		}
		passes(late)
		for range 3 {
			fails()
			time.Sleep(retryAfter)
			if fails(); !errors.Is(b.openError(true), late) {
				t.Error("an operation may wait for a connection while the breaker is open")
			}
			time.Sleep(time.Nanosecond)
			if !errors.Is(b.openError(false), late) {
				t.Error("a long operation may try the server while the breaker is open")
			}
			err := b.run(func() error {
				fails()
				time.Sleep(time.Hour)
				fails()
				return late
			})
			if !errors.Is(err, late) {
				t.Errorf("the trial returned %v, want its own error", err)
			}
		}
		time.Sleep(retryAfter + 1)
		for _, err := range left { // the caller left before an answer, so the next one tries
			passes(err)
			if !errors.Is(b.openError(false), late) {
				t.Errorf("%v closed the breaker", err)
			}
		}
		passes(answers[1])
		for range 2 {
			if err := b.openError(false); err != nil {
				t.Errorf("the breaker is still open after an answer: %v", err)
			}
			passes(nil)
		}
	})
}
