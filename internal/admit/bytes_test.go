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
		const limit = 1000
		var b admit.Bytes
		held, sum := map[string]int64{}, int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "moves") {
			id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "caller")
			n := rapid.Int64Range(0, 600).Draw(t, "bytes")
			if rapid.Bool().Draw(t, "release") {
				n = -min(n, held[id])
			}
			want := n <= 0 || held[id]+n <= limit-sum-n
			if got := b.Hold(id, n, limit); got != want {
				t.Fatalf("%s holds %d of %d: Hold of %d is %t, want %t", id, held[id], sum, n, got, want)
			}
			if want {
				held[id] += n
				sum += n
			}
			if b.Held() != sum {
				t.Fatalf("Held is %d, want %d", b.Held(), sum)
			}
		}
		for id, n := range held {
			b.Hold(id, -n, limit)
		}
		if b.Held() != 0 {
			t.Fatalf("%d bytes are held after all were released, want 0", b.Held())
		}
	})
}

// TestUnlimitedBytes: without a limit all bytes are granted.
func TestUnlimitedBytes(t *testing.T) {
	t.Parallel()
	var b admit.Bytes
	for range 2 {
		if !b.Hold("a", 1<<60, 0) {
			t.Fatal("Hold is refused without a limit")
		}
	}
}
