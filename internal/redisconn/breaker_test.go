package redisconn

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// TestBreaker: after an operation that had no answer in time others fail at once with its error; every half second one tries,
// and the first answer ends that, whatever it is. Only a brief operation tries, and that a caller left is no answer.
func TestBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b breaker
		passes := func(want bool) (trial bool) {
			t.Helper()
			waits := b.broken() == nil
			trial, err := b.enter(true)
			if (err == nil) != want || waits != want || !want && fault.CodeOf(err) != fault.Unavailable {
				t.Fatalf("passes: %t, %t (%v), want %t", waits, err == nil, err, want)
			}
			return trial
		}
		late := &fault.Error{Code: fault.Unavailable, Err: &lateError{"late"}}
		for _, err := range []error{nil, &fault.Error{Code: fault.Unavailable, Err: errors.New("refused")}, ErrClosed} {
			passes(true)
			b.leave(passes(true), err)
		}
		passes(true) // two are under way when the server falls silent
		b.leave(passes(true), late)
		for range 3 {
			passes(false)
			time.Sleep(rest - 1)
			passes(false)
			time.Sleep(time.Nanosecond)
			if !passes(true) {
				t.Fatal("the one that passes is no trial")
			}
			passes(false)
			time.Sleep(time.Hour)
			passes(false)
			b.leave(true, late)
		}
		time.Sleep(rest)
		if _, err := b.enter(false); err == nil || !b.isOpen() {
			t.Error("a long operation tries the server")
		}
		for _, err := range []error{context.Canceled, context.DeadlineExceeded, ErrClosed} { // it left before there was an answer
			b.leave(passes(true), err)
			if !b.isOpen() {
				t.Errorf("%v tells that the server answers", err)
			}
		}
		b.leave(passes(true), &fault.Error{Code: fault.Unavailable, Err: errors.New("has no memory left")})
		if passes(true) {
			t.Error("a server that answers is still tried")
		}
		b.leave(false, late)
		passes(false)
		b.leave(false, nil) // one that was under way all the time
		passes(true)
	})
}
