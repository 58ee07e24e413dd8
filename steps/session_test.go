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
		t.Error("a context has a session of itself")
	}
	s := &steps.Session{}
	ctx, cancel := context.WithCancel(steps.WithSession(t.Context(), s))
	defer cancel()
	if steps.SessionOf(ctx) != s {
		t.Error("the session is lost")
	}
	type key struct{ n int }
	made := map[int]int{} // guarded by the session
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			n := i % 4
			if got := s.Value(key{n}, func() any { made[n]++; return n }); got != n {
				t.Errorf("%d: %v", n, got)
			}
		})
	}
	all.Wait()
	for n, times := range made {
		if times != 1 {
			t.Errorf("%d was made %d times", n, times)
		}
	}
}
