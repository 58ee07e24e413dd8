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

// TestPlacesAtAServer: callers get the places of a server in turn, and who goes away takes none.
func TestPlacesAtAServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, s := admit.NewPlaces("disk", 2), admit.New(1)
		var mu sync.Mutex
		var order []string
		call := func(ctx context.Context, id string) *fault.Error {
			leave, f := p.Enter(admit.With(ctx, s.Of(id, 0)))
			if f != nil {
				return f
			}
			defer leave()
			mu.Lock()
			order = append(order, id)
			mu.Unlock()
			time.Sleep(time.Second)
			return nil
		}
		gone, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		taken, take := context.WithCancelCause(t.Context())
		for i, id := range []string{"greedy", "greedy", "greedy", "greedy", "modest", "late", "taken", "revoked"} {
			ctx, want := t.Context(), fault.Code("")
			switch id {
			case "late":
				ctx, want = gone, fault.Timeout
			case "taken":
				ctx, want = canceled(t), fault.Cancelled
			case "revoked":
				ctx, want = taken, fault.Denied
			}
			go func() {
				time.Sleep(time.Duration(i) * 10 * time.Nanosecond)
				switch f := call(ctx, id); {
				case (f == nil) != (want == ""), f != nil && (f.Code != want || f.Outcome != fault.NotSent):
					t.Errorf("%s: %v", id, f)
				case want == fault.Timeout && !strings.Contains(f.Message, "disk is called 2 times at once"):
					t.Error(f.Message)
				}
			}()
		}
		time.Sleep(time.Millisecond * 10)
		take(fault.New(fault.Denied, "the right was taken"))
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"greedy", "greedy", "greedy", "modest", "greedy"}; !slices.Equal(order, want) {
			t.Errorf("%v, want %v", order, want)
		}
		for range 2 { // nothing was lost
			if _, f := p.Enter(canceled(t)); f != nil {
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

// TestNoPlaces: without a bound nobody waits.
func TestNoPlaces(t *testing.T) {
	t.Parallel()
	p := admit.NewPlaces("disk", 0)
	for range 100 {
		if _, f := p.Enter(t.Context()); f != nil {
			t.Fatal(f)
		}
	}
}
