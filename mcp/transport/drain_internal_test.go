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

// TestAdmitted: requests that were admitted before the server closes may begin their calls, and the server waits for them. No request is
// admitted afterwards. A call that does not end is cancelled, and its context has the reason.
func TestAdmitted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := newTracker()
		done, ok := calls.track(&calls.requests, false)
		if !ok {
			t.Fatal("nothing is let in")
		}
		drained := make(chan bool)
		go func() { calls.drain(time.Minute); close(drained) }()
		synctest.Wait()
		if _, ok := calls.track(&calls.requests, false); ok || !calls.isClosing() {
			t.Error("a request is let in while the server closes")
		}
		if _, ok := calls.track(&calls.calls, false); ok {
			t.Error("a call of nobody who was let in begins")
		}
		end, ok := calls.track(&calls.calls, true)
		if !ok {
			t.Fatal("a call of one who was let in does not begin")
		}
		ctx, stop := endWith(t.Context(), calls.ctx)
		defer stop()
		done() // its client has left
		synctest.Wait()
		select {
		case <-drained:
			t.Error("the call is not waited for")
		default:
		}
		<-ctx.Done()
		if f, ok := fault.As(context.Cause(ctx)); !ok || f.Code != fault.Cancelled || !strings.HasPrefix(f.Message,
			"the server is shutting down: ") {
			t.Errorf("the cause: %v", context.Cause(ctx))
		}
		end()
		<-drained
	})
}

// TestAdmittedAtTheEnd: drain misses no request that is admitted while it begins.
func TestAdmittedAtTheEnd(t *testing.T) {
	t.Parallel()
	for range 200 {
		calls := newTracker()
		var inside, refused atomic.Int64
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for {
					done, ok := calls.track(&calls.requests, false)
					if !ok {
						refused.Add(1)
						return
					}
					inside.Add(1)
					if end, ok := calls.track(&calls.calls, true); ok {
						end()
					} else {
						t.Error("a call of one who was let in does not begin")
					}
					inside.Add(-1)
					done()
				}
			})
		}
		calls.drain(time.Minute)
		if n := inside.Load(); n != 0 {
			t.Fatalf("%d are inside", n)
		}
		all.Wait()
		if refused.Load() != 4 {
			t.Fatal("not all were refused")
		}
	}
}
