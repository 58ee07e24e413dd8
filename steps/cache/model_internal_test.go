package cache

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// TestStress: with concurrent readers, writers and impatient callers, a read that begins after a write has returned sees the write.
func TestStress(t *testing.T) {
	t.Parallel()
	const resources, workers, rounds = 3, 8, 1500
	var stored, written [resources]atomic.Int64
	var called, cached atomic.Int64
	var fns []steps.Function
	for i := range resources {
		fns = append(fns, steps.Function{Spec: steps.Spec{Name: fmt.Sprintf("s.r%d.get", i), Effect: steps.Read, CacheTTL: time.Hour},
			Call: func(ctx context.Context, _ []byte) ([]byte, error) {
				called.Add(1)
				before := rand.IntN(2) == 0
				n := stored[i].Load()
				for range rand.IntN(20) {
					runtime.Gosched()
				}
				if !before {
					n = stored[i].Load()
				}
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				return fmt.Appendf(nil, "%d", n), nil
			}}, steps.Function{Spec: steps.Spec{Name: fmt.Sprintf("s.r%d.set", i)},
			Call: func(context.Context, []byte) ([]byte, error) {
				n := stored[i].Add(1)
				for range rand.IntN(5) {
					runtime.Gosched()
				}
				return fmt.Appendf(nil, "%d", n), nil
			}})
	}
	c := New(&Options{MaxEntries: resources - 1})
	r := wrapped(t, c, fns...)
	ctx := steps.WithCallbacks(t.Context(), &steps.Callbacks{Cached: func() { cached.Add(1) }})
	work := func(ctx context.Context) {
		i := rand.IntN(resources)
		if rand.IntN(12) == 0 {
			var n int64
			if _, err := fmt.Sscan(call(t, r, fmt.Sprintf("s.r%d.set", i), "{}"), &n); err != nil {
				t.Error(err)
			}
			for seen := written[i].Load(); seen < n && !written[i].CompareAndSwap(seen, n); seen = written[i].Load() {
			}
			return
		}
		minimum := written[i].Load()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if rand.IntN(6) == 0 {
			go cancel()
		}
		got, err := tryCall(ctx, r, fmt.Sprintf("s.r%d.get", i), "{}")
		if err != nil {
			if fault.CodeOf(err) != fault.Cancelled || ctx.Err() == nil {
				t.Errorf("got %v, want cancelled only if the caller's context has ended, but it has %v", err, ctx.Err())
			}
			return
		}
		var n int64
		if _, err := fmt.Sscan(got, &n); err != nil || n < minimum {
			t.Errorf("a read gives %s, %v, want at least %d, which a write returned", got, err, minimum)
		}
	}
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range rounds {
				work(ctx)
			}
		})
	}
	all.Wait()
	if called.Load() == 0 || cached.Load() == 0 {
		t.Errorf("%d calls were made and %d answered from the cache, want some of both", called.Load(), cached.Load())
	}
	for range 1000 { // cancelled flights end soon
		c.mu.Lock()
		left := len(c.flights)
		c.mu.Unlock()
		if left == 0 {
			break
		}
		runtime.Gosched()
	}
	checkInvariants(t, c)
	t.Logf("%d calls made, %d answered from the cache", called.Load(), cached.Load())
}
