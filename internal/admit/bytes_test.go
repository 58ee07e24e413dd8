package admit_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/internal/admit"
)

// TestBytes compares the bytes of callers with a model: never more than the limit in total, and for each caller exactly as much as is
// left for others.
func TestBytes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const all = 1000
		var b admit.Bytes
		held, sum := map[string]int64{}, int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "moves") {
			id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "caller")
			n := rapid.Int64Range(0, 600).Draw(t, "bytes")
			if rapid.Bool().Draw(t, "release") {
				n = -min(n, held[id])
			}
			want := n <= 0 || held[id]+n <= all-sum-n
			if got := b.Hold(id, n, all); got != want {
				t.Fatalf("%s holds %d of %d, and %d more: %v", id, held[id], sum, n, got)
			}
			if want {
				held[id] += n
				sum += n
			}
			if b.Held() != sum {
				t.Fatalf("%d are held, told are %d", sum, b.Held())
			}
		}
		for id, n := range held {
			b.Hold(id, -n, all)
		}
		if b.Held() != 0 {
			t.Fatalf("%d bytes are left behind", b.Held())
		}
	})
}

// TestUnboundBytes: without a limit all bytes are granted.
func TestUnboundBytes(t *testing.T) {
	t.Parallel()
	var b admit.Bytes
	for range 2 {
		if !b.Hold("a", 1<<60, 0) {
			t.Fatal("refused without a bound")
		}
	}
}
