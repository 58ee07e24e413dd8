package cache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// checkInvariants checks the invariants of a cache's tables.
func checkInvariants(t testing.TB, c *Cache) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var bytes int64
	reads := 0
	for name, s := range c.sources {
		for r := range s.reads {
			reads++
			if r.source != s {
				t.Errorf("a read of %s belongs to another source", name)
			}
			if r.flight == nil {
				bytes += size(len(r.answer))
			}
		}
	}
	if reads != len(c.flights)+c.stored.Len() {
		t.Errorf("%d reads, want %d that are running and %d stored", reads, len(c.flights), c.stored.Len())
	}
	if bytes != c.bytes || bytes > c.options.MaxBytes || c.stored.Len() > c.options.MaxEntries {
		t.Errorf("%d bytes are stored in %d answers, counted as %d; want at most %d in %d", bytes, c.stored.Len(), c.bytes, c.options.MaxBytes, c.options.MaxEntries)
	}
}

func TestSameCall(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		first, second string
		same          bool
	}{
		"equal":          {`{"a":1,"b":[1,2]}`, `{"a":1,"b":[1,2]}`, true},
		"order of keys":  {`{"a":1,"b":{"c":1,"d":2}}`, `{ "b":{"d":2, "c":1},"a":1}`, true},
		"escapes":        {`{"a":"A/\u00e9"}`, `{"\u0061":"\u0041\/é"}`, true},
		"order of items": {`{"b":[1,2]}`, `{"b":[2,1]}`, false},
		"number":         {`{"a":1}`, `{"a":1.0}`, false},
		"big number":     {`{"a":9007199254740993}`, `{"a":9007199254740992}`, false},
		"type":           {`{"a":"1"}`, `{"a":1}`, false},
		"null":           {`{"a":null}`, `{}`, false},
		"duplicate key":  {`{"a":1,"a":2}`, `{"a":1,"a":2}`, false},
		"nothing":        {``, `{}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn, calls := counted("s.get")
			c := New(nil)
			r := wrapped(t, c, fn)
			first, second := call(t, r, "s.get", test.first), call(t, r, "s.get", test.second)
			if same := first == second && calls.Load() == 1; same != test.same {
				t.Errorf("answers %s and %s after %d calls, want one call: %t", first, second, calls.Load(), test.same)
			}
			checkInvariants(t, c)
		})
	}
}

func TestErrorsAreNotCached(t *testing.T) {
	t.Parallel()
	fn, calls := counted("s.get")
	inner := fn.Call
	fn.Call = func(ctx context.Context, args []byte) ([]byte, error) {
		if calls.Load() == 0 {
			calls.Add(1)
			return nil, errors.New("not yet")
		}
		return inner(ctx, args)
	}
	c := New(nil)
	r := wrapped(t, c, fn)
	if _, err := tryCall(t.Context(), r, "s.get", "{}"); fault.CodeOf(err) != fault.FunctionFailed {
		t.Errorf("got %v, want function_failed", err)
	}
	checkInvariants(t, c)
	if got := call(t, r, "s.get", "{}"); got != `{"n":2}` {
		t.Errorf(`got %s, want {"n":2}`, got)
	}
}

func TestTimeToLive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fn, calls := counted("s.get")
		slow, slowCalls := counted("s.slow")
		inner := slow.Call
		slow.Call = func(ctx context.Context, args []byte) ([]byte, error) {
			time.Sleep(minute)
			return inner(ctx, args)
		}
		c := New(nil)
		r := wrapped(t, c, fn, slow)
		call(t, r, "s.get", "{}")
		time.Sleep(minute - 1)
		call(t, r, "s.get", "{}")
		if calls.Load() != 1 {
			t.Errorf("%d calls within the minute, want 1", calls.Load())
		}
		time.Sleep(time.Nanosecond)
		call(t, r, "s.get", "{}")
		if calls.Load() != 2 {
			t.Errorf("%d calls after the minute, want 2", calls.Load())
		}
		// An answer's age counts from the start of its call: this answer has already expired when it arrives.
		call(t, r, "s.slow", "{}")
		call(t, r, "s.slow", "{}")
		if slowCalls.Load() != 2 {
			t.Errorf("slow was called %d times, want 2", slowCalls.Load())
		}
		time.Sleep(3 * sweepEvery)
		synctest.Wait()
		checkInvariants(t, c)
		if c.stored.Len() != 0 || c.sweeper != nil || len(c.sources["s"].reads) != 0 {
			t.Errorf("%d answers are stored after they expired, want none and no sweeper", c.stored.Len())
		}
	})
}

func TestFreshByBothClocks(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	wall := begun.Round(0) // the time without its monotonic reading, as after a computer slept
	r := &cachedRead{begun: begun, ttl: minute}
	for _, test := range []struct {
		now  time.Time
		want bool
	}{
		{begun, true}, {begun.Add(minute - 1), true}, {begun.Add(minute), false},
		{wall.Add(minute - 1), true}, {wall.Add(minute), false}, {wall.Add(-1), false},
	} {
		if got := r.fresh(test.now, time.Hour); got != test.want {
			t.Errorf("fresh after %v: got %t, want %t", test.now.Sub(begun), got, test.want)
		}
	}
	if r.fresh(begun.Add(time.Second), time.Second) {
		t.Error("fresh ignores a shorter time to live")
	}
}

func TestNewSnapshot(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*steps.Spec)
		cached bool
	}{
		"same":        {func(*steps.Spec) {}, true},
		"shorter":     {func(s *steps.Spec) { s.CacheTTL = time.Nanosecond }, false},
		"off":         {func(s *steps.Spec) { s.CacheTTL = 0 }, false},
		"input":       {func(s *steps.Spec) { s.Input = json.RawMessage(`{"type":"object","properties":{"a":{}}}`) }, false},
		"output":      {func(s *steps.Spec) { s.Output = json.RawMessage(`{"type":"object"}`) }, false},
		"description": {func(s *steps.Spec) { s.Description = "new" }, false},
		"effect":      {func(s *steps.Spec) { s.Effect = steps.Write }, false},
		"tier":        {func(s *steps.Spec) { s.Tier = steps.TierAdmin }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := New(nil)
			fn, calls := counted("s.get")
			call(t, wrapped(t, c, fn), "s.get", "{}")
			test.change(&fn.Spec)
			call(t, wrapped(t, c, fn), "s.get", "{}")
			if cached := calls.Load() == 1; cached != test.cached {
				t.Errorf("called %d times, want cached %t", calls.Load(), test.cached)
			}
			checkInvariants(t, c)
		})
	}
}

func TestFlush(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ flush, want string }{{"a", "2 1"}, {"A", "2 1"}, {"b", "1 2"}, {"", "2 2"}, {"none", "1 1"}} {
		c := New(nil)
		a, aCalls := counted("a.x.get")
		b, bCalls := counted("b.get")
		r := wrapped(t, c, a, b)
		for range 2 {
			call(t, r, "a.x.get", "{}")
			call(t, r, "b.get", "{}")
			c.Flush(test.flush)
		}
		if got := fmt.Sprint(aCalls.Load(), bCalls.Load()); got != test.want {
			t.Errorf("Flush(%q): %s calls, want %s", test.flush, got, test.want)
		}
		checkInvariants(t, c)
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"entries": {MaxEntries: 4},
		"bytes":   {MaxBytes: 4 * (overhead + 100)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn, _ := counted("s.get")
			var called []string
			fn.Call = func(_ context.Context, args []byte) ([]byte, error) {
				called = append(called, string(args))
				return []byte(`"` + strings.Repeat("x", 90) + `"`), nil
			}
			c := New(&o)
			r := wrapped(t, c, fn)
			for _, i := range []int{1, 2, 3, 4, 1, 5, 1, 2} { // 5 replaces 2, because 1 was used again
				call(t, r, "s.get", fmt.Sprintf(`{"i":%d}`, i))
				checkInvariants(t, c)
			}
			if got := strings.Join(called, ""); got != `{"i":1}{"i":2}{"i":3}{"i":4}{"i":5}{"i":2}` {
				t.Errorf("called with %s, want 1 to 5, then 2", got)
			}
		})
	}
}
