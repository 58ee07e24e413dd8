package files

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// BenchmarkRank ranks 10,000 files with matches, and finds their hot folder.
func BenchmarkRank(b *testing.B) {
	random := rand.New(rand.NewPCG(2026, 13))
	hits := make([]hit, 10_000)
	all := 0
	for i := range hits {
		hits[i] = hit{path: fmt.Sprintf("src/%d/%d/%d/file%d.go", random.IntN(10), random.IntN(10), random.IntN(10), i),
			count: 1 + random.IntN(5), definitions: random.IntN(2), test: random.IntN(3) == 0}
		all += hits[i].count
	}
	for b.Loop() {
		ranked := slices.Clone(hits)
		slices.SortFunc(ranked, compareHits)
		if hot := hotFolder(ranked, ".", all); hot == nil || hot.Path != "src" || ranked[0].definitions == 0 {
			b.Fatalf("got %v and the first %v", hot, ranked[0])
		}
	}
}
