package exprs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/steps/source/exprs"
)

// endingContext is a context that ends at the third call of Err.
type endingContext struct {
	context.Context
	checks *int
}

func (e endingContext) Err() error {
	if *e.checks++; *e.checks > 2 {
		return context.Canceled
	}
	return nil
}

// TestLongSearchesNeedASlot: a long search waits for a slot; a short one does not, however many matches it finds.
func TestLongSearchesNeedASlot(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 80_000)
	for _, test := range []struct {
		fn, args string
		waits    bool
	}{
		{"text.match", `"pattern":"x.*y|x","all":true`, true},
		{"text.match", `"pattern":"\\bx.*y|x","all":true`, true},
		{"text.match", `"pattern":"(x?){200}y"`, true},
		{"text.replace", `"pattern":"x.*y|x","with":""`, true},
		{"text.replace", `"pattern":"x","with":"` + strings.Repeat("y", 500) + `"`, true},
		{"text.match", `"pattern":"x.*y|x"`, false},
		{"text.match", `"pattern":"x{1,100}"`, false},
		{"text.match", `"pattern":"x+","all":true`, false},
		{"text.replace", `"pattern":"[xz]{80}","with":"y"`, true},
		{"text.replace", `"pattern":"xx*","with":"y"`, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			limiter := admit.New(1, 1)
			other, err := limiter.Acquire(t.Context(), "other")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(admit.WithRequest(t.Context(), &admit.Request{Caller: "mine", Slots: limiter}))
			defer cancel()
			done := make(chan error, 2)
			go func() {
				_, err := invoke(ctx, exprs.New(), test.fn, `{"text":"`+text+`",`+test.args+`}`)
				done <- err
			}()
			synctest.Wait()
			if waits := len(done) == 0; waits != test.waits {
				t.Errorf("%s %.100s: waits for a slot: %v, want %v", test.fn, test.args, waits, test.waits)
			}
			cancel()
			if err := <-done; test.waits != errors.Is(err, context.Canceled) {
				t.Errorf("%s %.100s: %v, want canceled: %v", test.fn, test.args, err, test.waits)
			}
			other()
			third, err := limiter.Acquire(t.Context(), "third")
			if err != nil {
				t.Error("the slot was not released:", err)
			}
			third()
		})
	}
}

// TestSearchSharesSlots: if a caller's searches take seconds, another caller still gets a slot.
func TestSearchSharesSlots(t *testing.T) {
	t.Parallel()
	limiter := admit.New(1, 2)
	ctx, cancel := context.WithCancel(admit.WithRequest(t.Context(), &admit.Request{Caller: "greedy", Slots: limiter}))
	defer cancel()
	checks := make(chan struct{}) // receives while a search checks its context
	ctx = watchedContext{ctx, checks}
	var searching sync.WaitGroup
	for range 3 {
		searching.Go(func() {
			_, err := invoke(ctx, exprs.New(), "text.match", `{"text":"`+strings.Repeat("x", 1<<18)+`","pattern":"x.*y|x","all":true}`)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want context.Canceled", err)
			}
		})
	}
	for range 3 { // afterwards one of them has a slot
		checks <- struct{}{}
	}
	for range 3 {
		release, err := limiter.Acquire(t.Context(), "modest")
		if err != nil {
			t.Fatal(err)
		}
		checks <- struct{}{}
		release()
	}
	cancel()
	searching.Wait()
}

// watchedContext is a context that reports each call of Err, if a goroutine waits for the report.
type watchedContext struct {
	context.Context
	at <-chan struct{}
}

func (w watchedContext) Err() error {
	select {
	case <-w.at:
	default:
	}
	return w.Context.Err()
}

// TestSearchIsStopped: the context ends a search of quadratic time, which takes hours, between two matches, and a match that takes seconds
// inside it.
func TestSearchIsStopped(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 1<<20)
	for _, test := range []struct{ fn, args string }{
		{"text.match", `"pattern":"x.*y|x","all":true`},
		{"text.replace", `"pattern":"x.*y|x","with":""`},
		{"text.match", `"pattern":"[xz]{800}y"`},
		{"text.match", `"pattern":"[xz]{800}y","all":true`},
		{"text.match", `"pattern":"[xz]{800}$"`}, // would match at the position where the text is cut
		{"text.replace", `"pattern":"[xz]{800}y","with":""`},
	} {
		checks := 0
		_, err := invoke(endingContext{t.Context(), &checks}, exprs.New(), test.fn, `{"text":"`+text+`",`+test.args+`}`)
		if !errors.Is(err, context.Canceled) || checks > 10 {
			t.Errorf("%s %s: got %v after %d checks of the context, want canceled after at most 10", test.fn, test.args, err, checks)
		}
	}
}

// countingContext counts the calls of Err.
type countingContext struct {
	context.Context //nolint:containedctx // it is one
	times           int
}

func (c *countingContext) Err() error {
	c.times++
	return c.Context.Err()
}

// TestContextIsCheckedRarely: the context is not checked for each part of each match.
func TestContextIsCheckedRarely(t *testing.T) {
	t.Parallel()
	ctx := &countingContext{Context: t.Context()}
	got, err := invoke(ctx, exprs.New(), "text.replace",
		fmt.Sprintf(`{"text":%q,"pattern":"a","with":%q}`, strings.Repeat("a", 1000), strings.Repeat(`\0`, 1000)))
	if err != nil || len(got) != 1_000_002 || ctx.times > 100 {
		t.Errorf("the context was checked %d times for %d bytes: %v, want at most 100 for 1,000,002", ctx.times, len(got), err)
	}
}
