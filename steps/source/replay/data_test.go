package replay_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
	"github.com/onecall-mcp/onecall/steps/source/replay"
)

// TestRealChains records the calls of real chains in one file and answers each chain from it: in BFCL the same call may have another answer
// later.
func TestRealChains(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"taubench.jsonl", "bfcl_base.jsonl", "bfcl_long_context.jsonl"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, err := os.Open(filepath.Join("..", "..", "..", "..", "shared", "data", name))
			if err != nil {
				t.Skip("the data is not available:", err)
			}
			defer func() { _ = file.Close() }()
			type chain struct {
				ID    string
				Steps []struct{ Fn string }
				Args  []json.RawMessage `json:"literal_args"`
				Want  []json.RawMessage `json:"results"`
			}
			var chains []chain
			var recording bytes.Buffer
			recorder := replay.NewRecorder(&recording, nil)
			lines := bufio.NewScanner(file)
			lines.Buffer(nil, 16<<20)
			for lines.Scan() {
				var c chain
				if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
					t.Fatal(err)
				}
				for i, step := range c.Steps {
					recorder.Observe(replay.WithChain(t.Context(), c.ID), &steps.Spec{Name: step.Fn}, c.Args[i], c.Want[i], nil)
				}
				chains = append(chains, c)
			}
			if lines.Err() != nil || recorder.Err() != nil || len(chains) == 0 {
				t.Fatalf("got %v, %v, %d chains; want at least one", lines.Err(), recorder.Err(), len(chains))
			}
			c, err := replay.Read(&recording, name)
			if err != nil {
				t.Fatal(err)
			}
			replayed := mustRegistry(t, c, baseRegistry(t))
			for _, chain := range chains {
				ctx := c.Cursor(t.Context(), chain.ID)
				for i, step := range chain.Steps {
					want, err := schema.Compact(chain.Want[i])
					if err != nil {
						t.Fatal(err)
					}
					if got := ask(ctx, replayed, step.Fn, string(chain.Args[i])); got != string(want) {
						t.Errorf("%s, step %d: got %.200s, want %.200s", chain.ID, i, got, want)
					}
				}
			}
		})
	}
}
