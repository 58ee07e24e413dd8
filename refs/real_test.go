package refs_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onecall-mcp/onecall/refs"
)

// TestRealChains resolves the arguments of recorded real chains and compares them with the arguments that each call
// received.
func TestRealChains(t *testing.T) {
	t.Parallel()
	for file, chains := range map[string]int{"taubench.jsonl": 91, "bfcl_base.jsonl": 111, "bfcl_long_context.jsonl": 94} {
		f, err := os.Open(filepath.Join("..", "..", "shared", "data", file))
		if err != nil {
			t.Skipf("the recorded chains are missing: %v", err)
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 16<<20)
		seen, references := 0, 0
		for lines.Scan() {
			var c struct {
				ID      string
				Steps   []struct{ Args json.RawMessage }
				Args    []json.RawMessage `json:"literal_args"`
				Results []json.RawMessage
			}
			if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
				t.Fatal(err)
			}
			seen++
			scope := &refs.Scope{}
			for i, step := range c.Steps {
				tpl, faults := refs.CompileTemplate(step.Args, refs.CompileScope{Step: i, Steps: len(c.Steps)})
				if len(faults) > 0 {
					t.Fatalf("%s step %d: %v", c.ID, i, faults[0])
				}
				references += len(tpl.Uses())
				got, err := tpl.Resolve(context.Background(), nil, scope)
				if err != nil {
					t.Fatalf("%s step %d: %v", c.ID, i, err)
				}
				if diff := cmp.Diff(decodeAny(t, c.Args[i]), decodeAny(t, got)); diff != "" {
					t.Errorf("%s step %d: arguments (-want +got):\n%s", c.ID, i, diff)
				}
				var raw bytes.Buffer
				if err := json.Compact(&raw, c.Results[i]); err != nil {
					t.Fatal(err)
				}
				scope.Steps = append(scope.Steps, refs.StepResult{Raw: raw.Bytes(), Status: "ok"})
			}
		}
		if lines.Err() != nil || seen != chains || references == 0 {
			t.Errorf("%s: %d chains, want %d; %d references; %v", file, seen, chains, references, lines.Err())
		}
	}
}

func decodeAny(t *testing.T, raw []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
