package ladder

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// TestModel compares the ladder with a map from subjects to the highest rung, over random ladders, views and calls. A call that a refusal
// advises is never refused itself.
func TestModel(t *testing.T) {
	t.Parallel()
	whole := (&backend{}).registry(t)
	rapid.Check(t, func(rt *rapid.T) {
		rungs := rapid.Permutation(code).Draw(rt, "rungs")[:rapid.IntRange(2, len(code)).Draw(rt, "number")]
		hidden := rapid.SliceOfNDistinct(rapid.SampledFrom(code), 0, len(code)-1, rapid.ID[string]).Draw(rt, "hidden")
		l := newLadder(t, Options{Mode: Enforce, Rungs: rungs})
		view := l.Wrap(whole).View(func(s *steps.Spec) bool { return !slices.Contains(hidden, s.Name) })
		ctx := steps.WithCallbacks(session(t), &steps.Callbacks{Functions: view})
		reached := map[string]int{}
		visible := rapid.SampledFrom(slices.DeleteFunc(slices.Clone(code), func(name string) bool { return slices.Contains(hidden, name) }))
		step := func(name string, ids []string) *fault.Error {
			rung := slices.Index(rungs, name)
			quoted, _ := json.Marshal(ids)
			args := fmt.Sprintf(`{"symbolId":%s}`, quoted)
			if name == "symbol.search" {
				args = fmt.Sprintf(`{"query":{"x":[{"symbolId":%s}]}}`, quoted)
			}
			f := call(ctx, t, view, name, args)
			maximum := 0
			for _, id := range ids {
				from, known := reached[id]
				if !known {
					from = -1
				}
				skipped := 0
				for i := from + 1; i < rung; i++ {
					if !slices.Contains(hidden, rungs[i]) {
						skipped++
					}
				}
				maximum = max(maximum, skipped)
			}
			denied := maximum > 1 && name != "symbol.search" // a call of the search has no subject
			if (f != nil) != denied {
				rt.Fatalf("%s for %v: got %v, want denied %t (reached %v, hidden %v)", name, ids, f, denied, reached, hidden)
			}
			if f == nil && rung >= 0 {
				for _, id := range ids {
					if before, known := reached[id]; !known || before < rung {
						reached[id] = rung
					}
				}
			}
			return f
		}
		for range rapid.IntRange(1, 30).Draw(rt, "calls") {
			ids := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 3).Draw(rt, "ids")
			f := step(visible.Draw(rt, "name"), ids)
			if f == nil {
				continue
			}
			_, advice, _ := strings.Cut(f.Message, ": call ")
			advice, _, _ = strings.Cut(advice, " first")
			index := 0
			if _, err := fmt.Sscanf(f.At, "/symbolId/%d", &index); err != nil || !slices.Contains(f.Available, advice) {
				rt.Fatalf("got %+v, want a position and the advice of an available function", f)
			}
			for _, name := range f.Available {
				if slices.Contains(hidden, name) {
					rt.Fatalf("the fault names %s, which is hidden", name)
				}
			}
			if f := step(advice, ids[index:index+1]); f != nil {
				rt.Fatalf("the advised call was denied: %v", f)
			}
		}
	})
}
