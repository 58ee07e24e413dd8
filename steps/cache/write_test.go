package cache

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// TestWriteInvalidates: a write empties its own source, whatever it was renamed to, and a write without a source empties all sources.
func TestWriteInvalidates(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		write, read string
		invalidated bool
	}{
		{"n.device.update", "n.device.list", true},
		{"n.device.update", "n.site.get", true},
		{"n.reset", "n.device.get", true},
		{"N.device.update", "n.device.get", true},
		{"n.device.update", "m.device.get", false},
		{"update", "m.device.get", true},
		{"renamed.site.remove", "n.device.get", true},
	} {
		for _, broken := range []error{nil, errors.New("no")} {
			fn, calls := counted(test.read)
			c := New(&Options{Source: func(s *steps.Spec) string { return strings.Replace(s.Source(), "renamed", "n", 1) }})
			r := wrapped(t, c, fn, writer(test.write, broken))
			call(t, r, test.read, "{}")
			_, _ = tryCall(t.Context(), r, test.write, "{}")
			call(t, r, test.read, "{}")
			if invalidated := calls.Load() == 2; invalidated != test.invalidated {
				t.Errorf("%s invalidates %s: got %t, want %t", test.write, test.read, invalidated, test.invalidated)
			}
			checkInvariants(t, c)
		}
	}
}

// A read that is running when a write begins may have seen the state before the write.
func TestReadRunningDuringWrite(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		write       string
		invalidated bool
	}{{"s.set", true}, {"o.set", false}} {
		synctest.Test(t, func(t *testing.T) {
			fn, calls, _ := slowFunction("s.a.get", 10*time.Second)
			c := New(nil)
			r := wrapped(t, c, fn, writer(test.write, nil))
			var all sync.WaitGroup
			read := func(after time.Duration, want string) {
				all.Go(func() {
					time.Sleep(after)
					if got := call(t, r, "s.a.get", "{}"); got != want {
						t.Errorf("%s: read after %v: got %s, want %s", test.write, after, got, want)
					}
				})
			}
			second := `{"n":1}`
			if test.invalidated {
				second = `{"n":2}`
			}
			read(0, `{"n":1}`)
			read(2*time.Second, `{"n":1}`)
			read(6*time.Second, second)  // must not find the first answer, although its call ended after the write
			read(12*time.Second, second) // nor may this read
			read(30*time.Second, second)
			time.Sleep(5 * time.Second)
			call(t, r, test.write, "{}")
			all.Wait()
			if invalidated := calls.Load() == 2; invalidated != test.invalidated {
				t.Errorf("%s: %d calls, want invalidated %t", test.write, calls.Load(), test.invalidated)
			}
			checkInvariants(t, c)
		})
	}
}

// While a write runs its effect is unknown: reads pass through and are not stored.
func TestReadsDuringWrite(t *testing.T) {
	t.Parallel()
	for name, otherInvalidated := range map[string]bool{"s.a.set": false, "set": true} {
		t.Run(name, func(t *testing.T) { t.Parallel(); readsDuringWrite(t, name, otherInvalidated) })
	}
}

func readsDuringWrite(t *testing.T, name string, otherInvalidated bool) {
	synctest.Test(t, func(t *testing.T) {
		invalidated, invalidatedCalls, _ := slowFunction("s.a.get", time.Second)
		other, otherCalls, _ := slowFunction("o.b.get", time.Second)
		write := writer(name, nil)
		write.Call = func(context.Context, []byte) ([]byte, error) {
			time.Sleep(10 * time.Second)
			return []byte("1"), nil
		}
		c := New(nil)
		r := wrapped(t, c, invalidated, other, write)
		var all sync.WaitGroup
		all.Go(func() { call(t, r, name, "{}") })
		time.Sleep(time.Nanosecond)
		for range 3 {
			for range 2 {
				all.Go(func() { call(t, r, "s.a.get", "{}") })
			}
			call(t, r, "o.b.get", "{}")
		}
		all.Wait()
		others := int64(1)
		if otherInvalidated {
			others = 3
		}
		if invalidatedCalls.Load() != 6 || otherCalls.Load() != others {
			t.Errorf("%d calls of the invalidated read and %d of the other, want 6 and %d", invalidatedCalls.Load(), otherCalls.Load(), others)
		}
		call(t, r, "s.a.get", "{}")
		call(t, r, "s.a.get", "{}")
		if invalidatedCalls.Load() != 7 || c.sources["s"].isWritten(time.Now()) || c.sources[""] != nil && c.sources[""].isWritten(time.Now()) {
			t.Errorf("after the write: %d calls, want 7 and no mark of the write", invalidatedCalls.Load())
		}
		checkInvariants(t, c)
	})
}

func TestUncertainWrite(t *testing.T) {
	t.Parallel()
	unknown := fault.New(fault.FunctionFailed, "lost")
	unknown.Outcome = fault.SentUnknown
	unsent := fault.New(fault.Unavailable, "down")
	unsent.Outcome = fault.NotSent
	gateway := fault.New(fault.FunctionFailed, "504")
	gateway.Status = 504
	refused := fault.New(fault.FunctionFailed, "409")
	refused.Status = 409
	for name, test := range map[string]struct {
		err       error
		uncertain bool
	}{
		"done": {nil, false}, "failed": {errors.New("no"), false}, "unknown": {unknown, true}, "not sent": {unsent, false},
		"gateway": {gateway, true}, "refused": {refused, false}, "timeout": {fault.New(fault.Timeout, "late"), true},
		"denied": {fault.New(fault.Denied, "no"), false}, "cancelled": {fault.New(fault.Cancelled, ""), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				fn, calls := counted("s.a.get")
				other, otherCalls := counted("o.b.get")
				c := New(nil)
				r := wrapped(t, c, fn, other, writer("s.a.set", test.err))
				_, _ = tryCall(t.Context(), r, "s.a.set", "{}")
				for range 30 {
					call(t, r, "s.a.get", "{}")
					call(t, r, "o.b.get", "{}")
					time.Sleep(uncertainTime / 30)
				}
				want := int64(1)
				if test.uncertain {
					want = 30
				}
				if calls.Load() != want || otherCalls.Load() != 1 {
					t.Errorf("%d calls while the write is uncertain and %d of another source, want %d and 1", calls.Load(), otherCalls.Load(), want)
				}
				call(t, r, "s.a.get", "{}")
				call(t, r, "s.a.get", "{}")
				if test.uncertain && calls.Load() != 31 || c.sources["s"].isWritten(time.Now()) {
					t.Errorf("%d calls after the uncertain time, want 31", calls.Load())
				}
			})
		})
	}
}
