package journal_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// TestLikely: the likely size is that around which most sizes lie, even if their median is far from any of them.
func TestLikely(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		sizes     []int
		low, high int64
	}{
		{nil, 0, 0},
		{[]int{0}, 1, 1},
		{[]int{2}, 2, 2},
		{[]int{1000}, 940, 1060},
		{[]int{2, 2, 2, 1000, 1100, 1200, 1300}, 1000, 1300},
		{[]int{2, 2, 2, 900, 40_000}, 2, 2},
		{[]int{500, 2000}, 470, 530}, // further apart than a factor of four: the smaller one
	} {
		var s journal.Sizes
		for _, n := range test.sizes {
			s.Count(n)
		}
		if got := s.Likely(); got < test.low || got > test.high {
			t.Errorf("of %v %d is likely, want %d to %d", test.sizes, got, test.low, test.high)
		}
	}
}

// TestSizes: the buckets are in order and count all sizes, in whatever order these come. The likely size is within a factor of two of the
// most that any value is.
func TestSizes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.IntRange(1, 1<<30), 1, 40).Draw(t, "sizes")
		var s journal.Sizes
		for _, n := range list {
			s.Count(n)
		}
		total := int64(0)
		for i, c := range s {
			total += c.Count
			if i > 0 && c.Bucket <= s[i-1].Bucket {
				t.Fatalf("the buckets are not in order: %v", s)
			}
		}
		if total != int64(len(list)) {
			t.Fatalf("%d sizes are counted, want %d", total, len(list))
		}
		near := func(likely int64, factor float64) (n int) {
			for _, size := range list {
				if f := float64(size); f <= factor*float64(likely) && float64(likely) <= factor*f {
					n++
				}
			}
			return n
		}
		most := near(slices.MaxFunc(asInt64(list), func(a, b int64) int { return near(a, 1.7) - near(b, 1.7) }), 1.7)
		if got := near(s.Likely(), 2.2); got < most { // a bucket's middle is off by up to 6 %
			t.Fatalf("%d sizes of %v are near %d, want %d", got, list, s.Likely(), most)
		}
	})
}

func asInt64(list []int) []int64 {
	out := make([]int64, len(list))
	for i, n := range list {
		out[i] = int64(n)
	}
	return out
}
