package cache

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// slowFunction is like counted, but each call takes d, and ended receives the error of its context.
func slowFunction(name string, d time.Duration) (fn steps.Function, calls *atomic.Int64, ended *error) {
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

// caller makes one call after a pause, with its own context.
type caller struct {
	after, timeout time.Duration // timeout 0: none
	want           string        // the result, or the error's code
	at             time.Duration // when it is answered
	cached         bool
}

func (client caller) call(t *testing.T, r *steps.Registry, i int) {
	begun := time.Now()
	time.Sleep(client.after)
	cached := false
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if client.timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, client.timeout)
		defer cancel()
	}
	got, err := tryCall(steps.WithCallbacks(ctx, &steps.Callbacks{Cached: func() { cached = true }}), r, "s.get", "{}")
	if err != nil {
		got = string(fault.CodeOf(err))
	}
	if at := time.Since(begun); got != client.want || at != client.at || cached != client.cached {
		t.Errorf("caller %d gets %s after %v, cached %t; want %s after %v, %t", i, got, at, cached, client.want, client.at, client.cached)
	}
}

func TestUncachedCallsAreNotJoined(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fn, calls, _ := slowFunction("s.get", time.Second)
		fn.CacheTTL = 0
		r := wrapped(t, New(nil), fn)
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { call(t, r, "s.get", "{}") })
		}
		all.Wait()
		if calls.Load() != 10 {
			t.Errorf("%d calls, want 10", calls.Load())
		}
	})
}

func TestLatestDeadlineCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fn, _ := counted("s.get")
		var reports []string
		fn.Call = func(ctx context.Context, _ []byte) ([]byte, error) {
			begun := time.Now()
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			for range 4 {
				text := "none"
				if d, ok := ctx.Deadline(); ok {
					text = d.Sub(begun).String()
				}
				reports = append(reports, text)
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
		if got := fmt.Sprint(reports); got != "[1m0s 1m0s 1h0m1.999s none]" {
			t.Errorf("got %s, want [1m0s 1m0s 1h0m1.999s none]", got)
		}
	})
}

func TestCallbacksOfFirstCaller(t *testing.T) {
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
		var callbacks [2]atomic.Int64
		var all sync.WaitGroup
		for i := range 2 {
			all.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				left := false
				var local context.Context
				record := func(ctx context.Context) {
					if left || ctx.Err() != nil || ctx != local {
						t.Error("a callback ran after its caller had left, or with another context")
					}
					callbacks[i].Add(1)
				}
				ctx = steps.WithCallbacks(ctx, &steps.Callbacks{
					Progress: func(ctx context.Context, _, _ float64, _ string) { record(ctx) },
					Log:      func(ctx context.Context, _, _ string, _ []byte) { record(ctx) },
				})
				local = ctx
				time.Sleep(time.Duration(i) * time.Millisecond)
				if i == 0 {
					time.AfterFunc(1500*time.Millisecond, cancel)
				}
				_, _ = tryCall(ctx, r, "s.get", "{}")
				left = true
			})
		}
		all.Wait()
		if callbacks[0].Load() != 4 || callbacks[1].Load() != 0 {
			t.Errorf("got %d callbacks for the first caller and %d for the second, want 4 and 0", callbacks[0].Load(), callbacks[1].Load())
		}
	})
}

// After the caller has left, it may change the arguments.
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
			time.Sleep(time.Microsecond) // the other goroutine is first
			if got := call(t, r, "s.get", `{"a":1}`); got != `{"a":1}` {
				t.Errorf(`got %s, want {"a":1}`, got)
			}
		})
		all.Go(func() {
			_, _ = entry.Call(ctx, args)
			copy(args, `{"b":2}`)
		})
		all.Wait()
	})
}
