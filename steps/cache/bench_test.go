package cache

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/steps"
)

const benchArgs = `{"query":"handleAuth","limit":3,"filter":{"b":[1,2,3],"a":"x"}}`

// answering returns functions that answer immediately.
func answering(ttl time.Duration) (read, write steps.Function) {
	answer := []byte(`{"items":[1,2,3]}`)
	read = steps.Function{Spec: steps.Spec{Name: "s.item.get", Effect: steps.Read, CacheTTL: ttl}}
	read.Call = func(context.Context, []byte) ([]byte, error) { return answer, nil }
	write = steps.Function{Spec: steps.Spec{Name: "s.item.set"}, Call: read.Call}
	return read, write
}

// raw returns the calls as the cache wraps them, without the registry's part, which is the same with and without a cache.
func raw(c *Cache, fn steps.Function) steps.Call {
	f := c.newFunction(&fn.Spec)
	if fn.Effect == steps.Read {
		return c.readCall(f, fn.Call)
	}
	return c.writeCall(f, fn.Call)
}

func BenchmarkHit(b *testing.B) {
	fn, _ := answering(time.Hour)
	get := raw(New(nil), fn)
	cached := 0
	ctx := steps.WithCallbacks(b.Context(), &steps.Callbacks{Cached: func() { cached++ }})
	args := []byte(benchArgs)
	if _, err := get(ctx, args); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	calls := 0
	for b.Loop() {
		if result, err := get(ctx, args); err != nil || len(result) == 0 {
			b.Fatalf("got %s, %v; want a result", result, err)
		}
		calls++
	}
	if cached != calls {
		b.Fatalf("%d of %d calls were answered from the cache, want all", cached, calls)
	}
}

func BenchmarkHitParallel(b *testing.B) {
	fn, _ := answering(time.Hour)
	get := raw(New(nil), fn)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		args := []byte(benchArgs)
		for pb.Next() {
			if result, err := get(context.Background(), args); err != nil || len(result) == 0 {
				b.Errorf("got %s, %v; want a result", result, err)
			}
		}
	})
}

// BenchmarkMiss measures a miss: the call, the work of the cache, and the eviction of another answer.
func BenchmarkMiss(b *testing.B) {
	fn, _ := answering(time.Hour)
	c := New(&Options{MaxEntries: 100})
	get := raw(c, fn)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		if result, err := get(b.Context(), fmt.Appendf(nil, `{"query":"handleAuth","limit":%d}`, i)); err != nil || len(result) == 0 {
			b.Fatalf("got %s, %v; want a result", result, err)
		}
	}
	if want := min(i, 100); c.stored.Len() != want {
		b.Fatalf("%d answers are stored after %d calls, want %d", c.stored.Len(), i, want)
	}
}

// BenchmarkWrite measures a write while the cache has 10,000 answers of another source.
func BenchmarkWrite(b *testing.B) {
	read, write := answering(time.Hour)
	read.Name, write.Name = "s.get", "o.set"
	c := New(nil)
	get, set := raw(c, read), raw(c, write)
	for i := range 10_000 {
		if _, err := get(b.Context(), fmt.Appendf(nil, `{"id":%d}`, i)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := set(b.Context(), []byte("{}")); err != nil {
			b.Fatal(err)
		}
	}
	if c.stored.Len() != 10_000 {
		b.Fatalf("%d answers are stored, want 10000", c.stored.Len())
	}
}

// TestHitAllocations: a hit allocates nothing.
func TestHitAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties pools: run without -race")
	}
	fn, _ := answering(time.Hour)
	get := raw(New(nil), fn)
	args := []byte(benchArgs)
	ctx := steps.WithCallbacks(context.Background(), &steps.Callbacks{})
	once := func() {
		if _, err := get(ctx, args); err != nil {
			t.Error(err)
		}
	}
	once()
	if n := testing.AllocsPerRun(1000, once); n != 0 {
		t.Errorf("a hit allocates %v times, want 0", n)
	}
}
