package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/onecall-mcp/onecall/bench/datasets"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/shape"
	"github.com/onecall-mcp/onecall/steps/source/replay"
)

// shapeFigures count what shapes that were learned from half of the chains find in the other half.
type shapeFigures struct {
	chains, warned int // the correct chains, and how many of them have warnings
	edits, hits    int // the misspelled members, and how many get a warning that names the right one as the nearest
	unknown        int // edits for functions with too few results for a shape
}

// TestSeenShapes takes the output schemas away: shapes are learned from the recorded results of every other chain, and in the chains
// between them each member that a reference names is misspelled, one at a time. Most are found before anything runs, with the right name as
// the nearest, and chains as they are get no warning.
func TestSeenShapes(t *testing.T) {
	t.Parallel()
	for file, limit := range map[string]struct{ hits, unknown, warned int }{ // percent
		"nestful_math": {96, 3, 0}, "taubench": {91, 2, 0}, "bfcl_base": {62, 25, 0}, "bfcl_long_context": {62, 26, 0},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			var sum shapeFigures
			chains := readChains(t, filepath.Join("..", "..", "shared", "data", file+".jsonl"))
			for first := range 2 {
				store := shape.Open(nil)
				for i, c := range chains {
					if i%2 == first {
						c.learn(t, store)
					}
				}
				for i, c := range chains {
					if i%2 != first {
						c.misspell(t, store, &sum)
					}
				}
			}
			t.Logf("%d of %d misspelt members found before the run (%d of functions without a shape); %d of %d correct chains have warnings",
				sum.hits, sum.edits, sum.unknown, sum.warned, sum.chains)
			if sum.edits == 0 || sum.hits*100 < limit.hits*sum.edits || sum.unknown*100 > limit.unknown*sum.edits ||
				sum.warned*100 > limit.warned*sum.chains {
				t.Errorf("want at least %d %% found, at most %d %% without a shape, and at most %d %% of correct chains with warnings",
					limit.hits, limit.unknown, limit.warned)
			}
		})
	}
}

// withShapes returns the functions of a chain, which answer from its recording and have the shapes of a store.
func (c realChain) withShapes(t *testing.T, store *shape.Store) (*steps.Registry, *replay.Cassette) {
	t.Helper()
	none, err := steps.NewRegistry(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	cassette, err := replay.Read(bytes.NewReader(datasets.Recording(c.calls(t))), "recording")
	if err != nil {
		t.Fatal(err)
	}
	registry, err := cassette.Registry(none)
	if err != nil {
		t.Fatal(err)
	}
	return store.Learn(registry, func(spec *steps.Spec) string { return spec.Name }), cassette
}

func (c realChain) answer(ctx context.Context, t *testing.T, registry *steps.Registry, list []byte, check bool) *chain.Answer {
	t.Helper()
	engine, err := chain.New(&chain.Options{Functions: registry})
	if err != nil {
		t.Fatal(err)
	}
	request := fmt.Appendf(nil, `{"name":%q,"steps":%s}`, c.ID, list)
	return engine.Run(ctx, request, &chain.Caller{Override: chain.Override{Check: check}})
}

// learn runs the chain, so that a store learns from its results.
func (c realChain) learn(t *testing.T, store *shape.Store) {
	t.Helper()
	registry, cassette := c.withShapes(t, store)
	if answer := c.answer(cassette.Cursor(context.Background(), c.ID), t, registry, c.Steps, false); !answer.OK {
		t.Errorf("%s failed: %s", c.ID, answer.JSON)
	}
}

var (
	referencePattern = regexp.MustCompile(`\$(\d+)((?:\.\w+|\[-?\d+\])+)`)
	memberPattern    = regexp.MustCompile(`\.([A-Za-z_]{3,})`)
)

// misspell checks the chain as it is, and with each member of its references misspelled.
func (c realChain) misspell(t *testing.T, store *shape.Store, sum *shapeFigures) {
	t.Helper()
	registry, _ := c.withShapes(t, store)
	sum.chains++
	if answer := c.answer(context.Background(), t, registry, c.Steps, true); !answer.OK || len(answer.Warnings) > 0 {
		t.Logf("%s has warnings: %v", c.ID, answer.Warnings)
		sum.warned++
	}
	var written []struct{ Fn string }
	if err := json.Unmarshal(c.Steps, &written); err != nil {
		t.Fatal(err)
	}
	for _, reference := range referencePattern.FindAllSubmatchIndex(c.Steps, -1) {
		var step int
		if _, err := fmt.Sscan(string(c.Steps[reference[2]:reference[3]]), &step); err != nil || step >= len(written) {
			continue // a dollar amount, not a reference
		}
		for _, member := range memberPattern.FindAllSubmatchIndex(c.Steps[reference[4]:reference[5]], -1) {
			start, end := reference[4]+member[2], reference[4]+member[3]
			name := string(c.Steps[start:end])
			wrong := slices.Concat(c.Steps[:start], []byte(misspelt(name, sum.edits)), c.Steps[end:])
			sum.edits++
			answer := c.answer(context.Background(), t, registry, wrong, true)
			if slices.ContainsFunc(answer.Warnings, func(w *fault.Error) bool { return len(w.Nearest) > 0 && w.Nearest[0] == name }) {
				sum.hits++
			} else if entry, err := registry.Resolve(written[step].Fn); err == nil && entry.ResultShape() == nil {
				sum.unknown++
			}
		}
	}
}

// misspelt returns a name with a mistake, of four kinds in turn.
func misspelt(name string, n int) string {
	at := len(name) / 2
	switch n % 4 {
	case 0: // a letter is missing
		return name[:at] + name[at+1:]
	case 1: // one too many
		return name[:at] + "x" + name[at:]
	case 2: // two in the wrong order, or another one where they are the same
		if name[at-1] != name[at] {
			return name[:at-1] + name[at:at+1] + name[at-1:at] + name[at+1:]
		}
	}
	return name[:at] + "q" + name[at+1:]
}
