package transport

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// TestDrainAdmitted: requests that were admitted before the server closes may begin their calls, and the server waits for them. No
// request is admitted afterwards. A call that does not end is cancelled, and its context has the reason.
func TestDrainAdmitted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := NewTracker()
		done, ok := calls.track(&calls.requests, false)
		if !ok {
			t.Fatal("a request is refused before the server closes")
		}
		drained := make(chan bool)
		go func() { calls.Drain(time.Minute); close(drained) }()
		synctest.Wait()
		if _, ok := calls.track(&calls.requests, false); ok || !calls.isClosing() {
			t.Error("a request is admitted while the server closes")
		}
		if _, ok := calls.track(&calls.calls, false); ok {
			t.Error("a call of a request that was not admitted begins")
		}
		end, ok := calls.track(&calls.calls, true)
		if !ok {
			t.Fatal("a call of an admitted request is refused")
		}
		ctx, stop := endWith(t.Context(), calls.ctx)
		defer stop()
		done() // its client has left
		synctest.Wait()
		select {
		case <-drained:
			t.Error("drain does not wait for the call")
		default:
		}
		<-ctx.Done()
		if f, ok := fault.As(context.Cause(ctx)); !ok || f.Code != fault.Cancelled || !strings.HasPrefix(f.Message,
			"the server is shutting down: ") {
			t.Errorf("the cause of the canceled call: %v, want cancelled: the server is shutting down", context.Cause(ctx))
		}
		end()
		<-drained
	})
}

// TestDrainRace: drain misses no request that is admitted while it begins.
func TestDrainRace(t *testing.T) {
	t.Parallel()
	for range 200 {
		calls := NewTracker()
		var running, refused atomic.Int64
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for {
					done, ok := calls.track(&calls.requests, false)
					if !ok {
						refused.Add(1)
						return
					}
					running.Add(1)
					if end, ok := calls.track(&calls.calls, true); ok {
						end()
					} else {
						t.Error("a call of an admitted request is refused")
					}
					running.Add(-1)
					done()
				}
			})
		}
		calls.Drain(time.Minute)
		if n := running.Load(); n != 0 {
			t.Fatalf("%d requests are running after drain, want none", n)
		}
		all.Wait()
		if n := refused.Load(); n != 4 {
			t.Fatalf("%d requests refused, want 4", n)
		}
	}
}
