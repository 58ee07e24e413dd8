package admit_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
)

// TestServerSlots: a caller waits for at most the server's limit of another's calls, and a canceled call takes no slot.
func TestServerSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := admit.NewServer("disk", 2)
		var mu sync.Mutex
		var order []string
		call := func(ctx context.Context, id string) *fault.Error {
			release, f := p.Acquire(admit.WithRequest(ctx, &admit.Request{Caller: id}))
			if f != nil {
				return f
			}
			defer release()
			mu.Lock()
			order = append(order, id)
			mu.Unlock()
			time.Sleep(time.Second)
			return nil
		}
		brief, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		revoked, revoke := context.WithCancelCause(t.Context())
		for i, id := range []string{"greedy", "greedy", "greedy", "greedy", "modest", "late", "canceled", "revoked"} {
			ctx, want := t.Context(), fault.Code("")
			switch id {
			case "late":
				ctx, want = brief, fault.Timeout
			case "canceled":
				ctx, want = canceled(t), fault.Cancelled
			case "revoked":
				ctx, want = revoked, fault.Denied
			}
			go func() {
				time.Sleep(time.Duration(i) * 10 * time.Nanosecond)
				switch f := call(ctx, id); {
				case (f == nil) != (want == ""), f != nil && (f.Code != want || f.Outcome != fault.NotSent):
					t.Errorf("%s: got %v, want code %q and not sent", id, f, want)
				case want == fault.Timeout && !strings.Contains(f.Message, "the concurrency of disk is limited to 2"):
					t.Errorf("%s: got message %q, want it to name the limit of 2", id, f.Message)
				}
			}()
		}
		time.Sleep(time.Millisecond * 10)
		revoke(fault.New(fault.Denied, "the right was revoked"))
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"greedy", "greedy", "modest", "greedy", "greedy"}; !slices.Equal(order, want) {
			t.Errorf("order %v, want %v", order, want)
		}
		for range 2 { // no slot was lost
			if _, f := p.Acquire(t.Context()); f != nil {
				t.Error(f)
			}
		}
	})
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// TestServerWithoutLimit: without a limit no caller waits.
func TestServerWithoutLimit(t *testing.T) {
	t.Parallel()
	p := admit.NewServer("disk", 0)
	for range 100 {
		if _, f := p.Acquire(t.Context()); f != nil {
			t.Fatal(f)
		}
	}
}
