package admit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/internal/admit"
)

// TestCallersShareSlots: a caller waits for one piece of work of a greedy caller, not for all of it.
func TestCallersShareSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := admit.New(1, 1)
		var mu sync.Mutex
		var order []string
		first := acquire(t, l, "first")
		for _, id := range []string{"greedy", "greedy", "greedy", "modest", "late", "greedy", "late"} {
			go func() {
				release := acquire(t, l, id)
				mu.Lock()
				order = append(order, id)
				mu.Unlock()
				time.Sleep(time.Second)
				release()
			}()
			synctest.Wait()
		}
		first()
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"greedy", "modest", "late", "greedy", "late", "greedy", "greedy"}; !slices.Equal(order, want) {
			t.Fatalf("order %v, want %v", order, want)
		}
	})
}

// TestCallerLimit: one caller uses all processors but one, and all callers together use all.
func TestCallerLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := admit.New(3, 4)
		var working atomic.Int64
		for range 10 {
			go func() {
				release := acquire(t, l, "greedy")
				working.Add(1)
				time.Sleep(time.Hour)
				release()
			}()
		}
		synctest.Wait()
		if n := working.Load(); n != 3 {
			t.Errorf("%d pieces of one caller's work at once, want 3", n)
		}
		release := acquire(t, l, "modest") // without waiting
		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Acquire(brief, "late"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a fifth Acquire: %v, want %v", err, context.DeadlineExceeded)
		}
		release()
		acquire(t, l, "late")()
		time.Sleep(10 * time.Hour)
	})
}

// TestCanceledAcquire: work that gives up waiting takes no slot, not even one that becomes free at that moment.
func TestCanceledAcquire(t *testing.T) {
	t.Parallel()
	l := admit.New(1, 1)
	for range 2000 {
		release := acquire(t, l, "a")
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		for i := range 4 {
			waiting.Go(func() {
				if release, err := l.Acquire(ctx, fmt.Sprint(i%2)); err == nil {
					release()
				}
			})
		}
		waiting.Go(cancel)
		release()
		waiting.Wait()
	}
	acquire(t, l, "a")()
}

// TestSlot: work acquires one slot, however often it calls Acquire, and releases it once.
func TestSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := admit.New(1, 1)
		ctx, cancel := context.WithCancel(admit.WithRequest(t.Context(), &admit.Request{Caller: "a", Slots: l}))
		var slot, other admit.Slot
		for range 2 {
			if err := slot.Acquire(ctx); err != nil {
				t.Fatal(err)
			}
		}
		brief, end := context.WithTimeout(ctx, time.Second)
		defer end()
		if err := other.Acquire(brief); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Acquire of a second slot: %v, want %v", err, context.DeadlineExceeded)
		}
		cancel()
		if err := slot.Acquire(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Acquire in an ended context: %v, want %v", err, context.Canceled)
		}
		for range 2 {
			slot.Release()
			other.Release()
		}
		acquire(t, l, "b")()
	})
}

// TestNeedsSlot: each request has some free pieces of light work; further ones need a slot.
func TestNeedsSlot(t *testing.T) {
	t.Parallel()
	for range 2 {
		ctx := admit.WithRequest(t.Context(), &admit.Request{Slots: admit.New(1, 1)})
		free := 0
		for !admit.NeedsSlot(ctx) {
			free++
		}
		if free != 16 || !admit.NeedsSlot(ctx) {
			t.Errorf("%d free pieces of work, want 16", free)
		}
	}
}

// TestWithoutRequest: work without a request has no limit.
func TestWithoutRequest(t *testing.T) {
	t.Parallel()
	for _, ctx := range []context.Context{t.Context(), admit.WithRequest(t.Context(), &admit.Request{})} {
		for range 100 {
			var slot admit.Slot
			if err := slot.Acquire(ctx); err != nil || admit.NeedsSlot(ctx) || admit.Hold(ctx, 1<<60) != nil {
				t.Fatalf("Acquire: got %v, NeedsSlot %t, want no error and false", err, admit.NeedsSlot(ctx))
			}
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := new(admit.Slot).Acquire(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Acquire of a cancelled caller: got error %v, want %v", err, context.Canceled)
	}
}

func acquire(t *testing.T, l *admit.Limiter, caller string) (release func()) {
	t.Helper()
	release, err := l.Acquire(context.WithoutCancel(t.Context()), caller)
	if err != nil {
		t.Error(err)
		return func() {}
	}
	return release
}

// cancellingLimiter admits a caller and then cancels the context of that Acquire.
type cancellingLimiter struct {
	*admit.Limiter
	end context.CancelFunc
}

func (e cancellingLimiter) Acquire(ctx context.Context, caller string) (release func(), err error) {
	release, err = e.Limiter.Acquire(ctx, caller)
	e.end()
	return release, err
}

// TestSlotOfEndedContext: no slot is held after an error, even if the context ended as the slot was granted.
func TestSlotOfEndedContext(t *testing.T) {
	t.Parallel()
	l := admit.New(1, 1)
	ctx, cancel := context.WithCancel(t.Context())
	var slot admit.Slot
	if err := slot.Acquire(admit.WithRequest(ctx, &admit.Request{Caller: "a", Slots: cancellingLimiter{l, cancel}})); !errors.Is(err, context.Canceled) {
		t.Fatalf("Acquire: got error %v, want %v", err, context.Canceled)
	}
	brief, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	release, err := l.Acquire(brief, "a")
	if err != nil {
		t.Fatalf("the slot is still held: %v", err)
	}
	release()
}
