package bench

import (
	"path/filepath"
	"testing"

	"github.com/onecall-mcp/onecall/bench/datasets"
)

// TestRealBounds: no run of a data set takes more than the high end of its bound, nor less than the low end. What is likely, if the journal
// has the runs of all other tasks, is within a factor of two of what a run takes in nine of ten runs whose functions these have called.
func TestRealBounds(t *testing.T) {
	t.Parallel()
	known := 0
	near := map[string]int{"calls": 0, "bytes": 0, "tokens": 0}
	for _, name := range datasets.Names() {
		var chains []*datasets.Chain
		for _, c := range readChains(t, filepath.Join("..", "..", "shared", "data", name+".jsonl")) {
			chains = append(chains, c.Chain)
		}
		runs, err := datasets.Bounds(t.Context(), chains)
		if err != nil {
			t.Fatal(err)
		}
		of, set := 0, map[string]int{}
		for i := range runs {
			for _, above := range runs[i].Above() {
				t.Errorf("%s: %s", name, above)
			}
			if !runs[i].Known {
				continue
			}
			of++
			for what := range near {
				if runs[i].Near(what) {
					set[what]++
				}
			}
		}
		t.Logf("%s: %d of %d runs known, near %v", name, of, len(runs), set)
		known += of
		for what, n := range set {
			near[what] += n
		}
	}
	for what, n := range near {
		if n*10 < known*9 {
			t.Errorf("what is likely of %s is within a factor of two in %d of %d runs, want 90 %%", what, n, known)
		}
	}
}
