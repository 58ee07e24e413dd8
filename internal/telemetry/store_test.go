package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/telemetry"
)

// TestStoreFails checks that the failure of a store is logged with its cause, at once and then rarely, and that other errors are not.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, slog.LevelError, telemetry.Options{})
		unavailable := fault.New(fault.Unavailable, "it cannot be reached")
		unavailable.Err = errors.New("the store at 10.0.0.7:6379 refuses " + secret)
		ctx, end := b.Request(context.Background(), &chain.RequestInfo{Kind: chain.KindCall})
		for range 35 { // seconds
			for range 10 {
				b.Stored(ctx, "sessions", "find", 0, unavailable)
				b.Stored(ctx, "results", "get", 0, errors.New("plain "+secret))
				b.Stored(ctx, "sessions", "find", 0, fault.New(fault.Internal, "odd"))
				for _, code := range []fault.Code{fault.Timeout, fault.Cancelled, fault.Busy, fault.TokenExpired, fault.LimitExceeded} {
					b.Stored(ctx, "sessions", "find", 0, fault.New(code, "no failure of the store"))
				}
				b.Stored(ctx, "sessions", "find", 0, nil)
			}
			time.Sleep(time.Second)
		}
		end(&chain.RequestEnd{})
		counts := map[string]int{}
		for _, line := range b.out.records(t, "a store failed") {
			what := line.Get("store").Str + " " + line.Get("operation").Str + " " + line.Get("code").Str + ": " + line.Get("error").Str + "; " +
				line.Get("cause").Str
			counts[what]++
			if n := line.Get("others").Int(); counts[what] > 1 != (n == 99) || line.Get("level").Str != "ERROR" || line.Get("chain_id").Str == "" {
				t.Errorf("got %s, want level ERROR, a chain_id, and 99 others after the first", line.Raw)
			}
		}
		want := map[string]int{
			"sessions find unavailable: unavailable: it cannot be reached; the store at 10.0.0.7:6379 refuses [redacted]": 4,
			"results get unavailable: plain [redacted]; ":                                                                 4,
			"sessions find internal: internal: odd; ":                                                                     4,
		}
		if fmt.Sprint(counts) != fmt.Sprint(want) || strings.Contains(b.out.String(), secret) {
			t.Errorf("logged %v, want %v", counts, want)
		}
	})
}
