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
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/telemetry"
)

// TestStoreFails holds that an operator is told why a store fails, soon and seldom, and of nothing that is no failure of it.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, slog.LevelError, telemetry.Options{})
		away := fault.New(fault.Unavailable, "it cannot be reached")
		away.Err = errors.New("the store at 10.0.0.7:6379 refuses " + secret)
		ctx, end := b.Request(context.Background(), &chain.Observed{Kind: chain.KindCall})
		for range 35 { // seconds
			for range 10 {
				b.Stored(ctx, "sessions", "find", 0, away)
				b.Stored(ctx, "results", "get", 0, errors.New("plain "+secret))
				b.Stored(ctx, "sessions", "find", 0, fault.New(fault.Internal, "odd"))
				for _, code := range []fault.Code{fault.Timeout, fault.Cancelled, fault.Busy, fault.TokenExpired, fault.LimitExceeded} {
					b.Stored(ctx, "sessions", "find", 0, fault.New(code, "no failure of the store"))
				}
				b.Stored(ctx, "sessions", "find", 0, nil)
			}
			time.Sleep(time.Second)
		}
		end(&chain.Ended{})
		told := map[string]int{}
		for _, line := range b.out.of(t, "a store failed") {
			what := line.Get("store").Str + " " + line.Get("operation").Str + " " + line.Get("code").Str + ": " + line.Get("error").Str + "; " + line.Get("cause").Str
			told[what]++
			if n := line.Get("others").Int(); told[what] > 1 != (n == 99) || line.Get("level").Str != "ERROR" || line.Get("chain_id").Str == "" {
				t.Error(line.Raw)
			}
		}
		want := map[string]int{
			"sessions find unavailable: unavailable: it cannot be reached; the store at 10.0.0.7:6379 refuses [redacted]": 4,
			"results get unavailable: plain [redacted]; ":                                                                 4,
			"sessions find internal: internal: odd; ":                                                                     4,
		}
		if fmt.Sprint(told) != fmt.Sprint(want) || strings.Contains(b.out.String(), secret) {
			t.Errorf("told %v, want %v", told, want)
		}
	})
}

// shelf is a store of sessions that gives what it is told to.
type shelf struct {
	err   error
	asked []string
}

func (s *shelf) note(format string, args ...any) {
	s.asked = append(s.asked, fmt.Sprintf(format, args...))
}

func (s *shelf) Begin(_ context.Context, owner string, most, all int) (string, error) {
	s.note("begin %s %d %d", owner, most, all)
	return "id", s.err
}

func (s *shelf) Session(_ context.Context, id, owner string) (steps.SessionState, error) {
	s.note("find %s %s", id, owner)
	if s.err != nil {
		return nil, s.err
	}
	return s, nil
}

func (s *shelf) End(_ context.Context, id, owner string) error {
	s.note("end %s %s", id, owner)
	return s.err
}

func (s *shelf) Take(_ context.Context, owner string, perSecond float64, burst int) (time.Duration, error) {
	s.note("take %s %v %d", owner, perSecond, burst)
	return time.Second, s.err
}

func (s *shelf) Read(_ context.Context, names ...string) ([]int64, error) {
	s.note("read %q", names)
	return []int64{7}, s.err
}

func (s *shelf) Add(_ context.Context, name string, n int64) (int64, error) {
	s.note("add %s %d", name, n)
	return 9, s.err
}

func (s *shelf) Raise(_ context.Context, values map[string]int64) error {
	s.note("raise %v", values)
	return s.err
}

// TestSessions holds that a store of sessions that is counted is the store that it was.
func TestSessions(t *testing.T) {
	t.Parallel()
	b := start(t, slog.LevelError, telemetry.Options{})
	ctx, store := context.Background(), &shelf{}
	counted := b.Sessions("sessions", store)
	id, began := counted.Begin(ctx, "o", 3, 5)
	state, found := counted.Session(ctx, id, "o")
	if began != nil || found != nil || id != "id" {
		t.Fatal(id, began, found)
	}
	use := func() (all []error) {
		_, began := counted.Begin(ctx, "o", 1, 2)
		none, found := counted.Session(ctx, "id", "o")
		if found != nil && none != nil {
			t.Error("a session beside an error")
		}
		wait, took := counted.Take(ctx, "o", 1.5, 2)
		numbers, read := state.Read(ctx, "a", "b")
		sum, added := state.Add(ctx, "n", 4)
		if wait != time.Second || len(numbers) != 1 || numbers[0] != 7 || sum != 9 {
			t.Error(wait, numbers, sum)
		}
		return []error{began, found, took, read, added, state.Raise(ctx, map[string]int64{"x": 1}), counted.End(ctx, "id", "o")}
	}
	for _, err := range use() {
		if err != nil {
			t.Error(err)
		}
	}
	want := `begin o 3 5|find id o|begin o 1 2|find id o|take o 1.5 2|read ["a" "b"]|add n 4|raise map[x:1]|end id o`
	if got := strings.Join(store.asked, "|"); got != want {
		t.Errorf("asked %s", got)
	}
	store.err = fault.New(fault.Unavailable, "away")
	for _, err := range use() {
		if !errors.Is(err, store.err) {
			t.Errorf("%v, want the store's own error", err)
		}
	}
	text := page(t, b)
	for operation, n := range map[string]int{"begin": 2, "find": 2, "take": 1, "read": 1, "add": 1, "raise": 1, "end": 1} {
		for code, n := range map[string]int{"ok": n, "unavailable": 1} {
			if line := fmt.Sprintf(`onecall_store_operations_total{code=%q,operation=%q,store="sessions"} %d`, code, operation, n); !strings.Contains(text, line+"\n") {
				t.Errorf("%s is not there", line)
			}
		}
	}
}
