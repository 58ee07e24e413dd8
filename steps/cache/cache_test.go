package cache

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/steps"
)

const minute = time.Minute

// counted returns a function that reads, is cached for a minute, and returns how often it was called.
func counted(name string) (steps.Function, *atomic.Int64) {
	calls := new(atomic.Int64)
	return steps.Function{
		Spec: steps.Spec{Name: name, Effect: steps.Read, CacheTTL: minute},
		Call: func(context.Context, []byte) ([]byte, error) { return fmt.Appendf(nil, `{"n":%d}`, calls.Add(1)), nil },
	}, calls
}

func writer(name string, err error) steps.Function {
	return steps.Function{Spec: steps.Spec{Name: name}, Call: func(context.Context, []byte) ([]byte, error) { return []byte("true"), err }}
}

func wrapped(t testing.TB, c *Cache, fns ...steps.Function) *steps.Registry {
	t.Helper()
	r, err := steps.NewRegistry(fns, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c.Wrap(r)
}

func tryCall(ctx context.Context, r *steps.Registry, name, args string) (string, error) {
	entry, err := r.Resolve(name)
	if err != nil {
		return "", err
	}
	result, err := entry.Call(ctx, []byte(args))
	return string(result), err
}

func call(t testing.TB, r *steps.Registry, name, args string) string {
	t.Helper()
	result, err := tryCall(t.Context(), r, name, args)
	if err != nil {
		t.Errorf("%s %s: %v", name, args, err)
	}
	return result
}

func TestWhatIsCached(t *testing.T) {
	t.Parallel()
	ttl := func(d time.Duration) func(*steps.Spec) { return func(s *steps.Spec) { s.CacheTTL = d } }
	for name, test := range map[string]struct {
		fn     string
		change func(*steps.Spec)
		o      Options
		cached bool
	}{
		"with a time to live": {"s.get", ttl(minute), Options{}, true},
		"off by default":      {"s.get", ttl(0), Options{}, false},
		"write":               {"s.get", func(s *steps.Spec) { s.Effect = steps.Write }, Options{}, false},
		"destroy":             {"s.get", func(s *steps.Spec) { s.Effect = steps.Destroy }, Options{}, false},
		"no source":           {"get", ttl(minute), Options{}, false},
		"source by options":   {"get", ttl(minute), Options{Source: func(*steps.Spec) string { return "s" }}, true},
		"options win":         {"s.get", ttl(minute), Options{TTL: func(*steps.Spec) time.Duration { return 0 }}, false},
		"too large":           {"s.get", ttl(minute), Options{MaxBytes: 1000}, false},
		"no bounds":           {"s.get", ttl(minute), Options{MaxBytes: -1, MaxEntries: -1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn, calls := counted(test.fn)
			test.change(&fn.Spec)
			r := wrapped(t, New(&test.o), fn)
			call(t, r, test.fn, "{}")
			call(t, r, test.fn, "{}")
			if cached := calls.Load() == 1; cached != test.cached {
				t.Errorf("called %d times, want cached %t", calls.Load(), test.cached)
			}
		})
	}
}

func TestHitIsCompleteAndCounted(t *testing.T) {
	t.Parallel()
	const answer = `{"z":1.50,"a":"\u0041","n":12345678901234567890}`
	fn, _ := counted("s.get")
	fn.Call = func(context.Context, []byte) ([]byte, error) { return []byte(answer), nil }
	r := wrapped(t, New(nil), fn)
	cached := 0
	ctx := steps.WithCallbacks(t.Context(), &steps.Callbacks{Cached: func() { cached++ }})
	for i := range 3 {
		if got, err := tryCall(ctx, r, "s.get", "{}"); err != nil || got != answer || cached != i {
			t.Errorf("call %d: got %s, %v, %d cached; want %s and %d", i, got, err, cached, answer, i)
		}
	}
}

func TestCachedAnswerIsACopy(t *testing.T) {
	t.Parallel()
	large := []byte(`"` + strings.Repeat("x", 1000) + `"`)
	fn, _ := counted("s.get")
	fn.Call = func(context.Context, []byte) ([]byte, error) { return large[:5:5], nil }
	copy(large, `"abc"`)
	r := wrapped(t, New(nil), fn)
	call(t, r, "s.get", "{}")
	copy(large, `"XXX"`)
	entry, err := r.Resolve("s.get")
	if err != nil {
		t.Fatal(err)
	}
	hit, err := entry.Call(t.Context(), []byte("{}"))
	if err != nil || string(hit) != `"abc"` || cap(hit) != len(hit) {
		t.Errorf("got %s with spare capacity %d, %v, want \"abc\" without any", hit, cap(hit)-len(hit), err)
	}
}
