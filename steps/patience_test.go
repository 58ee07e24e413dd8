package steps_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/steps"
)

// TestPatience: signs of life put a limit off, at most to ten times it.
func TestPatience(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		signs int // one each 20 s
		want  time.Duration
	}{{0, 30 * time.Second}, {1, 50 * time.Second}, {3, 90 * time.Second}, {100, 300 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := steps.WithPatience(t.Context(), 30*time.Second)
			defer cancel()
			began := time.Now()
			go func() {
				for range test.signs {
					select {
					case <-time.After(20 * time.Second):
						steps.Alive(ctx)()
					case <-ctx.Done():
						return
					}
				}
			}()
			<-ctx.Done()
			ended := time.Since(began)
			if most, progressed := steps.Progressed(ctx); ended != test.want || progressed != (test.signs > 0) ||
				progressed && most != 300*time.Second || !errors.Is(context.Cause(ctx), context.DeadlineExceeded) ||
				!errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Errorf("%d signs: ended after %v, %v, %t, %v, %v, want %v", test.signs, ended, most, progressed, context.Cause(ctx), ctx.Err(),
					test.want)
			}
		})
	}
	if steps.Alive(t.Context()) != nil {
		t.Error("a context without a limit can be put off")
	}
}
