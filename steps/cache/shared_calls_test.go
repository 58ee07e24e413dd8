package cache

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

func TestConcurrentCallers(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for name, test := range map[string]struct {
		callers []caller // the callers of a function that takes 10 seconds
		calls   int64
		ended   error // the error of the last call's context
	}{
		"joined": {callers: []caller{
			{want: `{"n":1}`, at: 10 * s}, {after: 4 * s, want: `{"n":1}`, at: 10 * s, cached: true},
			{after: 9 * s, want: `{"n":1}`, at: 10 * s, cached: true},
			{after: 11 * s, want: `{"n":1}`, at: 11 * s, cached: true},
		}, calls: 1},
		"the first leaves": {callers: []caller{
			{timeout: 5 * s, want: "timeout", at: 5 * s}, {after: 4 * s, want: `{"n":1}`, at: 10 * s, cached: true},
			{after: 6 * s, want: `{"n":1}`, at: 10 * s, cached: true},
		}, calls: 1},
		"a follower leaves": {callers: []caller{
			{want: `{"n":1}`, at: 10 * s}, {after: 4 * s, timeout: 2 * s, want: "timeout", at: 6 * s},
		}, calls: 1},
		"all leave": {callers: []caller{
			{timeout: 5 * s, want: "timeout", at: 5 * s}, {after: 1 * s, timeout: 5 * s, want: "timeout", at: 6 * s},
		}, calls: 1, ended: context.DeadlineExceeded},
		"all callers leave": {callers: []caller{
			{timeout: 5 * s, want: "timeout", at: 5 * s}, {after: 6 * s, want: `{"n":2}`, at: 16 * s},
		}, calls: 2, ended: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				fn, calls, ended := slowFunction("s.get", 10*time.Second)
				c := New(nil)
				r := wrapped(t, c, fn)
				var all sync.WaitGroup
				for i, client := range test.callers {
					all.Go(func() { client.call(t, r, i) })
				}
				all.Wait()
				synctest.Wait()
				if calls.Load() != test.calls || !errors.Is(*ended, test.ended) {
					t.Errorf("%d calls, the last context ended with %v; want %d and %v", calls.Load(), *ended, test.calls, test.ended)
				}
				checkInvariants(t, c)
				if len(c.flights) != 0 {
					t.Error("a flight remains after all callers have returned")
				}
			})
		})
	}
}

func TestErrorReachesAllCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fn, calls := counted("s.get")
		fn.Call = func(context.Context, []byte) ([]byte, error) {
			calls.Add(1)
			time.Sleep(time.Second)
			return nil, fault.New(fault.Denied, "no")
		}
		c := New(nil)
		r := wrapped(t, c, fn)
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				ctx := steps.WithCallbacks(t.Context(), &steps.Callbacks{Cached: func() { t.Error("an error counts as cached") }})
				if _, err := tryCall(ctx, r, "s.get", "{}"); fault.CodeOf(err) != fault.Denied {
					t.Errorf("got %v, want denied", err)
				}
			})
		}
		all.Wait()
		if calls.Load() != 1 {
			t.Errorf("%d calls, want 1", calls.Load())
		}
		checkInvariants(t, c)
	})
}

// A wrapper between the registry's guard and the cache may panic, too, and must not affect other callers.
func TestBrokenCall(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]func(){"panic": func() { panic("broken") }, "exit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				fn, _ := counted("s.get")
				base, err := steps.NewRegistry([]steps.Function{fn, writer("s.set", nil)}, nil)
				if err != nil {
					t.Fatal(err)
				}
				c := New(nil)
				r := c.Wrap(base.Wrap(func(*steps.Spec, steps.Call) steps.Call {
					return func(context.Context, []byte) ([]byte, error) {
						time.Sleep(time.Second)
						broken()
						return nil, nil
					}
				}))
				var all sync.WaitGroup
				for range 3 {
					all.Go(func() {
						if _, err := tryCall(t.Context(), r, "s.get", "{}"); fault.CodeOf(err) != fault.Internal {
							t.Errorf("got %v, want internal", err)
						}
					})
				}
				all.Wait()
				_, err = tryCall(t.Context(), r, "s.set", "{}")
				if fault.CodeOf(err) != fault.Internal || !c.sources["s"].isWritten(time.Now()) {
					t.Errorf("after a broken write: got %v, want internal, and reads uncached", err)
				}
				checkInvariants(t, c)
			})
		})
	}
}

// An answer that refers to one caller's result store is not shared.
func TestPersonalAnswerIsNotShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fn, calls := counted("s.get")
		fn.Call = func(ctx context.Context, _ []byte) ([]byte, error) {
			calls.Add(1)
			time.Sleep(time.Second)
			token := "none"
			if keep := steps.CallbacksOf(ctx).Keep; keep != nil {
				var err error
				if token, err = keep(ctx, []byte("1")); err != nil {
					return nil, err
				}
			}
			return fmt.Appendf(nil, "%q", token), nil
		}
		c := New(nil)
		r := wrapped(t, c, fn)
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				result := fmt.Sprint("token", i)
				ctx := steps.WithCallbacks(t.Context(), &steps.Callbacks{
					Keep:   func(context.Context, []byte) (string, error) { return result, nil },
					Cached: func() { t.Error("a personal answer counts as cached") },
				})
				for range 2 {
					if got, err := tryCall(ctx, r, "s.get", "{}"); err != nil || got != `"`+result+`"` {
						t.Errorf("caller %s gets %s, %v, want %q", result, got, err, result)
					}
				}
			})
		}
		all.Wait()
		if calls.Load() != 6 {
			t.Errorf("%d calls, want 6", calls.Load())
		}
		// Without a store the answer is shared, but not with callers that have a store.
		call(t, r, "s.get", "{}")
		call(t, r, "s.get", "{}")
		if calls.Load() != 7 {
			t.Errorf("%d calls, want 7", calls.Load())
		}
		ctx := steps.WithCallbacks(t.Context(), &steps.Callbacks{Keep: func(context.Context, []byte) (string, error) { return "own", nil }})
		if got, err := tryCall(ctx, r, "s.get", "{}"); err != nil || got != `"own"` {
			t.Errorf("caller with a store: got %s, %v, want its own token", got, err)
		}
		checkInvariants(t, c)
	})
}

// An answer that exists counts, even if the caller's context has ended.
func TestAnswerWinsOverEndedContext(t *testing.T) {
	t.Parallel()
	c := New(nil)
	f := newFlight(&cachedRead{})
	f.join(t.Context())
	f.result, f.ended = readResult{answer: []byte("1")}, true
	close(f.done)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		if o, err := c.wait(ctx, f); err != nil || string(o.answer) != "1" {
			t.Fatalf("got %s, %v, want the answer", o.answer, err)
		}
	}
}
