package chain_test

import (
	"testing"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/steps"
)

// TestAnswerNamesRun: an answer has the id of its run, whether or not it failed, unless nothing was recorded.
func TestAnswerNamesRun(t *testing.T) {
	t.Parallel()
	j, err := journal.New(&journal.Memory{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	recorded, err := chain.New(&chain.Options{Functions: &steps.Registry{}, Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	unrecorded, err := chain.New(&chain.Options{Functions: &steps.Registry{}})
	if err != nil {
		t.Fatal(err)
	}
	for request, ok := range map[string]bool{`{"steps":[{"expr":"6*7"}]}`: true, `{"steps":[{"expr":"fromJSON(\"x\")"}]}`: false} {
		a := recorded.Run(t.Context(), []byte(request), nil)
		rows, err := j.List(t.Context(), &journal.Filter{Limit: 1})
		if err != nil || len(rows) != 1 || rows[0].ID != a.Run || a.OK != ok {
			t.Errorf("%s: the answer names the run %q, the newest is %+v (%v): %s", request, a.Run, rows, err, a.JSON)
		}
		if a := unrecorded.Run(t.Context(), []byte(request), nil); a.Run != "" {
			t.Errorf("%s without a journal: the answer names the run %q", request, a.Run)
		}
		if a := recorded.Run(t.Context(), []byte(request), &chain.Caller{Override: chain.Override{DryRun: true}}); a.Run != "" {
			t.Errorf("the dry run of %s names the run %q", request, a.Run)
		}
	}
}
