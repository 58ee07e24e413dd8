package steps_test

import (
	"context"
	"sync"
	"testing"

	"github.com/onecall-mcp/onecall/steps"
)

func TestSession(t *testing.T) {
	t.Parallel()
	if steps.SessionOf(t.Context()) != nil {
		t.Error("SessionOf returns a session for a context without one")
	}
	s := &steps.Session{}
	ctx, cancel := context.WithCancel(steps.WithSession(t.Context(), s))
	defer cancel()
	if steps.SessionOf(ctx) != s {
		t.Error("SessionOf does not return the session")
	}
	type key struct{ n int }
	created := map[int]int{} // guarded by the session
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			n := i % 4
			if got := s.Value(key{n}, func() any { created[n]++; return n }); got != n {
				t.Errorf("got value %v, want %d", got, n)
			}
		})
	}
	all.Wait()
	for n, times := range created {
		if times != 1 {
			t.Errorf("value %d was created %d times, want 1", n, times)
		}
	}
}

// ender counts how often it is told of the end of its session.
type ender struct{ told int }

func (e *ender) SessionEnded() { e.told++ }

// TestSessionEnd: the end of a session is told once to each value that asks for it, at once to one that is made later.
func TestSessionEnd(t *testing.T) {
	t.Parallel()
	s := &steps.Session{}
	early, late := &ender{}, &ender{}
	for range 2 {
		s.Value("early", func() any { return early })
		s.Value("other", func() any { return 1 })
	}
	s.End()
	if early.told != 1 {
		t.Errorf("a value was told %d times, want once", early.told)
	}
	for range 2 {
		s.Value("late", func() any { return late })
	}
	if early.told != 1 || late.told != 1 {
		t.Errorf("values were told %d and %d times, want once each", early.told, late.told)
	}
}
