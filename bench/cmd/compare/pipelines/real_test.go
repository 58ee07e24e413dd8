package pipelines

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

// measureData measures one data set while the others are missing.
func measureData(t *testing.T, name, data string) (*report.Section, error) {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, name+".jsonl"), []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
	b := harness.New(&report.Options{Data: folder, Short: true, Log: t.Logf}, &report.Section{Name: "pipelines"})
	defer b.Close()
	return b.Section, harness.Try(func() { realChains(t.Context(), b) })
}

func TestRealChains(t *testing.T) {
	t.Parallel()
	s, err := measureData(t, "nestful_math", `{"id":"one","steps":[{"fn":"add","args":{"a":1,"b":2}},{"fn":"add","args":{"a":3,"b":4}},`+
		`{"fn":"times","args":{"a":"$0.result","b":"$1.result"}}],"intermediate":[3,7,21]}`+"\n"+
		`{"id":"two","steps":[{"fn":"add","args":{"a":1,"b":2}}],"intermediate":[3]}`+"\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Tables) != 3 || len(s.Comments) != len(titles)-1 || len(s.Figures) != 0 {
		t.Fatalf("got %d tables, %d figures, comments %q, want 3, 0 and a comment for each other set",
			len(s.Tables), len(s.Figures), s.Comments)
	}
	var got []float64
	for _, c := range s.Tables[0].Rows[1].Cells {
		got = append(got, c.Value)
	}
	if want := []float64{2, 4, 3, 2}; !slices.Equal(got, want) { // chains; round trips of calls, of calls side by side, of chains
		t.Errorf("round trips: got %v, want %v", got, want)
	}
	if err := s.Write(t.TempDir()); err != nil {
		t.Error(err)
	}
}

// TestRealChainsAreChecked: a chain that makes a call that was not recorded is an error, and so is a line that is not a recorded chain.
func TestRealChainsAreChecked(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"id":"wrong","steps":[{"fn":"a","args":{"x":1}}],"literal_args":[{"x":2}],"results":[3]}`: "taubench: wrong: the chain failed",
		`{"id":"short","steps":[{"fn":"a"},{"fn":"b"}],"literal_args":[{}],"results":[3,4]}`:        "short: 2 steps with 1 literal_args and 2 results",
		`{"id":"later","steps":[{"fn":"a","args":{"x":"$0.result"}}],"intermediate":[3]}`:           "later: $0.result in step 0",
		`{"id":"none","steps":[]}`: "none: 0 steps",
		`not JSON`:                 "taubench.jsonl",
	} {
		if _, err := measureData(t, "taubench", line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %s", line, err, want)
		}
	}
}
