package polltest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/internal/polltest"
)

func TestTry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, looks := time.Now(), 0
		polltest.Until(t, "a second", func() bool { looks++; return time.Since(began) >= time.Second })
		if took := time.Since(began); took > 1100*time.Millisecond || looks > 50 {
			t.Errorf("%d looks in %v", looks, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if began = time.Now(); polltest.Try(ctx, func() bool { return false }) || time.Since(began) != time.Second {
			t.Errorf("after %v", time.Since(began))
		}
		if !polltest.Try(ctx, func() bool { return true }) {
			t.Error("what holds is not looked at after the end")
		}
	})
}
