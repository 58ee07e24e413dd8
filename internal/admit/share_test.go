package admit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/internal/admit"
)

// TestTurns: places go to callers in turn, however many times one of them waits.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := admit.New(1)
		var mu sync.Mutex
		var order []string
		first, err := s.Of("first", 0).Turn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"greedy", "greedy", "greedy", "modest", "late", "greedy", "late"} {
			go func() {
				turn, err := s.Of(id, 0).Turn(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, id)
				mu.Unlock()
				turn.Done()
			}()
			synctest.Wait()
		}
		first.Done()
		synctest.Wait()
		if want := []string{"greedy", "modest", "late", "greedy", "late", "greedy", "greedy"}; !slices.Equal(order, want) {
			t.Fatalf("%v, want %v", order, want)
		}
		if s.Callers() != 0 {
			t.Fatal("a caller is left behind")
		}
	})
}

// TestYield: long work lets other callers go first, and not others of its own caller, which begin when it is done.
func TestYield(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := admit.New(1)
		var mu sync.Mutex
		var order []string
		say := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, what)
		}
		work := func(id, name string, pieces int) {
			turn, err := s.Of(id, 0).Turn(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			defer turn.Done()
			for i := range pieces {
				say(fmt.Sprint(name, i))
				time.Sleep(time.Second)
				if err := turn.Yield(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}
		for _, one := range []struct {
			id, name string
			pieces   int
		}{{"greedy", "a", 3}, {"greedy", "b", 2}, {"modest", "m", 2}} {
			go work(one.id, one.name, one.pieces)
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"a0", "m0", "a1", "m1", "a2", "b0", "b1"}; !slices.Equal(order, want) {
			t.Errorf("%v, want %v", order, want)
		}
		s = admit.New(1)
		ctx, cancel := context.WithCancel(t.Context())
		mine, _ := s.Of("a", 0).Turn(ctx)
		go func() {
			other, err := s.Of("b", 0).Turn(t.Context())
			if err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
			other.Done()
		}()
		time.Sleep(time.Second)
		cancel()
		if err := mine.Yield(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		mine.Done() // it has no place any more
		time.Sleep(time.Minute)
		if s.Callers() != 0 || s.Places() != 1 {
			t.Errorf("%d callers, %d places", s.Callers(), s.Places())
		}
	})
}

// TestTurnWithin: work within a turn has it, lets others go first, and gives back nothing of it.
func TestTurnWithin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := admit.New(1)
		outer, err := s.Of("a", 0).Turn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx := admit.WithTurn(t.Context(), outer)
		inner, err := s.Of("a", 0).Turn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		inner.Done()
		if s.Places() != 0 {
			t.Error("the turn was given back too early")
		}
		went := false
		go func() {
			other, err := s.Of("b", 0).Turn(t.Context())
			if err != nil {
				t.Error(err)
			}
			went = true
			other.Done()
		}()
		time.Sleep(time.Second)
		if err := inner.Yield(ctx); err != nil {
			t.Error(err)
		}
		if !went {
			t.Error("work within a turn does not let others go first")
		}
		outer.Done()
		if s.Places() != 1 {
			t.Error("the turn was not given back")
		}
	})
}

// TestTurnIsOver: a turn that is done gives nothing back again, whoever still has it.
func TestTurnIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := admit.New(1)
		mine, _ := s.Of("a", 0).Turn(t.Context())
		time.Sleep(time.Second)
		mine.Done()
		other, _ := s.Of("b", 0).Turn(t.Context())
		waits, cancel := context.WithCancel(t.Context())
		third := make(chan error, 1)
		go func() {
			_, err := s.Of("c", 0).Turn(waits)
			third <- err
		}()
		synctest.Wait()
		if err := mine.Yield(canceled(t)); err != nil {
			t.Error(err)
		}
		mine.Done()
		synctest.Wait()
		if len(third) > 0 {
			t.Error("two have the one place")
		}
		cancel()
		<-third
		other.Done()
		if s.Places() != 1 || s.Callers() != 0 {
			t.Errorf("%d places, %d callers", s.Places(), s.Callers())
		}
	})
}

// TestBegin: where a context asks for it each piece of work has a turn, and a large one in it takes no second one.
func TestBegin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := admit.New(1)
		ctx := admit.With(t.Context(), s.Of("a", 0))
		if _, turn, err := admit.Begin(ctx); turn != nil || err != nil {
			t.Error("a turn that nobody asked for", err)
		}
		within, turn, err := admit.Begin(admit.WithTurns(ctx))
		if err != nil || s.Places() != 0 {
			t.Fatal(err, s.Places())
		}
		if _, err := admit.From(within).Turn(within); err != nil {
			t.Error(err)
		}
		brief, cancel := context.WithTimeout(admit.WithTurns(ctx), time.Second)
		defer cancel()
		if _, _, err := admit.Begin(brief); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		turn.Done()
		if s.Places() != 1 {
			t.Error("the turn was not given back")
		}
	})
}

// TestPlaces: as many work as there are places, and who gives up waiting keeps none.
func TestPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := admit.New(2)
		a, _ := s.Of("a", 0).Turn(t.Context())
		b, _ := s.Of("a", 0).Turn(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		refused := make(chan error, 3)
		for i := range 3 {
			go func() {
				_, err := s.Of(fmt.Sprint(i%2), 0).Turn(ctx)
				refused <- err
			}()
		}
		synctest.Wait()
		cancel()
		for range 3 {
			if err := <-refused; !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		if s.Callers() != 0 {
			t.Fatal("who gave up is left behind")
		}
		a.Done()
		c, err := s.Of("b", 0).Turn(ctx)
		if err != nil {
			t.Fatal("a free place is had whatever the context says:", err)
		}
		b.Done()
		c.Done()
	})
}

// TestTurnAndEnd: a place that was given in the moment in which the wait was given up is not lost.
func TestTurnAndEnd(t *testing.T) {
	t.Parallel()
	s := admit.New(1)
	for range 2000 {
		turn, err := s.Of("a", 0).Turn(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var waiting sync.WaitGroup
		for range 2 {
			waiting.Go(func() {
				if other, err := s.Of("b", 0).Turn(ctx); err == nil {
					other.Done()
				}
			})
		}
		waiting.Go(cancel)
		turn.Done()
		waiting.Wait()
	}
	if _, err := s.Of("a", 0).Turn(context.Background()); err != nil || s.Callers() != 0 {
		t.Fatal(err, s.Callers())
	}
}

// TestBytes: what callers hold against a model: never more than the bound in all, never more of one than is left for others,
// and never less than that.
func TestBytes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const all = 1000
		s := admit.New(1)
		held, sum := map[string]int64{}, int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "moves") {
			id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "caller")
			n := rapid.Int64Range(0, 600).Draw(t, "bytes")
			if rapid.Bool().Draw(t, "release") {
				n = min(n, held[id])
				s.Of(id, all).Release(n)
				held[id] -= n
				sum -= n
				continue
			}
			want := n == 0 || held[id]+n <= all-sum-n
			if got := s.Of(id, all).Hold(n); got != want {
				t.Fatalf("%s holds %d of %d, and %d more: %v", id, held[id], sum, n, got)
			}
			if want {
				held[id] += n
				sum += n
			}
			if s.Held() != sum {
				t.Fatalf("%d are held, told are %d", sum, s.Held())
			}
		}
		for id, n := range held {
			s.Of(id, all).Release(n)
		}
		if s.Held() != 0 || s.Callers() != 0 {
			t.Fatalf("%d bytes and %d callers are left behind", s.Held(), s.Callers())
		}
	})
}

// TestUnbound: without a bound, and without shares, everything is had.
func TestUnbound(t *testing.T) {
	t.Parallel()
	s := admit.New(0) // is 1
	for range 2 {
		if !s.Of("a", 0).Hold(1 << 60) {
			t.Fatal("refused without a bound")
		}
	}
	for _, p := range []admit.Part{{}, admit.From(t.Context()), admit.From(admit.With(t.Context(), s.Of("a", 0)))} {
		turn, err := p.Turn(t.Context())
		if err != nil || !p.Hold(1) || turn.Yield(t.Context()) != nil {
			t.Fatal(err)
		}
		p.Release(1)
		turn.Done()
	}
}
