package cache

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// taking is counted, but takes its time, and tells how its contexts ended.
func taking(name string, d time.Duration) (fn steps.Function, calls *atomic.Int64, ended *error) {
	fn, calls = counted(name)
	inner := fn.Call
	ended = new(error)
	fn.Call = func(ctx context.Context, args []byte) ([]byte, error) {
		result, _ := inner(ctx, args)
		select {
		case <-time.After(d):
			return result, nil
		case <-ctx.Done():
			*ended = context.Cause(ctx)
			return nil, ctx.Err()
		}
	}
	return fn, calls, ended
}

// caller makes one call after a pause, under a context of its own.
type caller struct {
	after, timeout time.Duration // timeout 0: none
	want           string        // the result, or the error's code
	at             time.Duration // when it is answered
	cached         bool
}

func (who caller) call(t *testing.T, r *steps.Registry, i int) {
	begun := time.Now()
	time.Sleep(who.after)
	cached := false
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if who.timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, who.timeout)
		defer cancel()
	}
	got, err := tryCall(steps.WithCallbacks(ctx, &steps.Callbacks{Cached: func() { cached = true }}), r, "s.get", "{}")
	if err != nil {
		got = string(fault.CodeOf(err))
	}
	if at := time.Since(begun); got != who.want || at != who.at || cached != who.cached {
		t.Errorf("caller %d gets %s after %v, cached %t; want %s after %v, %t", i, got, at, cached, who.want, who.at, who.cached)
	}
}

func TestSideBySide(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for name, test := range map[string]struct {
		callers []caller // of a function that takes 10 seconds
		calls   int64
		ended   error // of the last call's context
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
		"after all have left": {callers: []caller{
			{timeout: 5 * s, want: "timeout", at: 5 * s}, {after: 6 * s, want: `{"n":2}`, at: 16 * s},
		}, calls: 2, ended: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				fn, calls, ended := taking("s.get", 10*time.Second)
				c := New(nil)
				r := wrapped(t, c, fn)
				var all sync.WaitGroup
				for i, who := range test.callers {
					all.Go(func() { who.call(t, r, i) })
				}
				all.Wait()
				synctest.Wait()
				if calls.Load() != test.calls || !errors.Is(*ended, test.ended) {
					t.Errorf("%d calls, the last context ended with %v", calls.Load(), *ended)
				}
				holds(t, c)
				if len(c.flights) != 0 {
					t.Error("a flight is left")
				}
			})
		})
	}
}

func TestNotJoinedWhereOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fn, calls, _ := taking("s.get", time.Second)
		fn.CacheTTL = 0
		r := wrapped(t, New(nil), fn)
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { call(t, r, "s.get", "{}") })
		}
		all.Wait()
		if calls.Load() != 10 {
			t.Errorf("%d calls", calls.Load())
		}
	})
}

func TestDeadlineIsTheLatest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fn, _ := counted("s.get")
		var told []string
		fn.Call = func(ctx context.Context, _ []byte) ([]byte, error) {
			begun := time.Now()
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			for range 4 {
				text := "none"
				if d, ok := ctx.Deadline(); ok {
					text = d.Sub(begun).String()
				}
				told = append(told, text)
				time.Sleep(time.Second)
			}
			return []byte("1"), nil
		}
		r := wrapped(t, New(nil), fn)
		var all sync.WaitGroup
		for i, timeout := range []time.Duration{time.Minute, time.Second, time.Hour, 0} {
			all.Go(func() {
				time.Sleep(time.Duration(i)*time.Second - time.Duration(min(i, 1))*time.Millisecond)
				ctx := t.Context()
				if timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, timeout)
					defer cancel()
				}
				_, _ = tryCall(ctx, r, "s.get", "{}")
			})
		}
		all.Wait()
		if got := fmt.Sprint(told); got != "[1m0s 1m0s 1h0m1.999s none]" {
			t.Error(got)
		}
	})
}

func TestErrorIsGivenToAll(t *testing.T) {
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
				ctx := steps.WithCallbacks(t.Context(), &steps.Callbacks{Cached: func() { t.Error("an error is counted as cached") }})
				if _, err := tryCall(ctx, r, "s.get", "{}"); fault.CodeOf(err) != fault.Denied {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if calls.Load() != 1 {
			t.Errorf("%d calls", calls.Load())
		}
		holds(t, c)
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
							t.Error(err)
						}
					})
				}
				all.Wait()
				_, err = tryCall(t.Context(), r, "s.set", "{}")
				if fault.CodeOf(err) != fault.Internal || !c.sources["s"].isWritten(time.Now()) {
					t.Errorf("%v, and reads are kept", err)
				}
				holds(t, c)
			})
		})
	}
}

func TestAttendantIsTheFirstCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fn, _ := counted("s.get")
		fn.Call = func(ctx context.Context, _ []byte) ([]byte, error) {
			a := steps.CallbacksOf(ctx)
			for i := range 4 {
				a.Progress(ctx, float64(i), 4, "")
				a.Log(ctx, "info", "", []byte("1"))
				time.Sleep(time.Second)
			}
			return []byte("1"), nil
		}
		r := wrapped(t, New(nil), fn)
		var heard [2]atomic.Int64
		var all sync.WaitGroup
		for i := range 2 {
			all.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				left := false
				var own context.Context
				listen := func(ctx context.Context) {
					if left || ctx.Err() != nil || ctx != own {
						t.Error("told of after it has left")
					}
					heard[i].Add(1)
				}
				ctx = steps.WithCallbacks(ctx, &steps.Callbacks{
					Progress: func(ctx context.Context, _, _ float64, _ string) { listen(ctx) },
					Log:      func(ctx context.Context, _, _ string, _ []byte) { listen(ctx) },
				})
				own = ctx
				time.Sleep(time.Duration(i) * time.Millisecond)
				if i == 0 {
					time.AfterFunc(1500*time.Millisecond, cancel)
				}
				_, _ = tryCall(ctx, r, "s.get", "{}")
				left = true
			})
		}
		all.Wait()
		if heard[0].Load() != 4 || heard[1].Load() != 0 {
			t.Errorf("the first heard %d, the second %d", heard[0].Load(), heard[1].Load())
		}
	})
}

// An answer that refers to the store of one caller is not shared.
func TestStoredValueIsPersonal(t *testing.T) {
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
				own := fmt.Sprint("token", i)
				ctx := steps.WithCallbacks(t.Context(), &steps.Callbacks{
					Keep:   func(context.Context, []byte) (string, error) { return own, nil },
					Cached: func() { t.Error("a personal answer is counted as cached") },
				})
				for range 2 {
					if got, err := tryCall(ctx, r, "s.get", "{}"); err != nil || got != `"`+own+`"` {
						t.Errorf("%s gets %s, %v", own, got, err)
					}
				}
			})
		}
		all.Wait()
		if calls.Load() != 6 {
			t.Errorf("%d calls", calls.Load())
		}
		// Without a store the answer is anybody's, but not for those who have one.
		call(t, r, "s.get", "{}")
		call(t, r, "s.get", "{}")
		if calls.Load() != 7 {
			t.Errorf("%d calls", calls.Load())
		}
		ctx := steps.WithCallbacks(t.Context(), &steps.Callbacks{Keep: func(context.Context, []byte) (string, error) { return "own", nil }})
		if got, err := tryCall(ctx, r, "s.get", "{}"); err != nil || got != `"own"` {
			t.Errorf("with a store: %s, %v", got, err)
		}
		holds(t, c)
	})
}

// The arguments are the caller's again when it has left.
func TestArgumentsOutliveTheCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fn, _ := counted("s.get")
		fn.Call = func(_ context.Context, args []byte) ([]byte, error) {
			time.Sleep(time.Second)
			return args, nil
		}
		r := wrapped(t, New(nil), fn)
		entry, err := r.Resolve("s.get")
		if err != nil {
			t.Fatal(err)
		}
		args := []byte(`{"a":1}`)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() {
			time.Sleep(time.Microsecond) // the other leads
			if got := call(t, r, "s.get", `{"a":1}`); got != `{"a":1}` {
				t.Error(got)
			}
		})
		all.Go(func() {
			_, _ = entry.Call(ctx, args)
			copy(args, `{"b":2}`)
		})
		all.Wait()
	})
}

// An answer that is there counts, also when the caller's time is over.
func TestAnswerBeatsTheEnd(t *testing.T) {
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
			t.Fatalf("%s, %v", o.answer, err)
		}
	}
}
