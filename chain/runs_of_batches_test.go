package chain_test

import (
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// TestParts: a run keeps the parent that its caller named, even after a resume without one. A batch cannot be resumed.
func TestParts(t *testing.T) {
	t.Parallel()
	failing := true
	g := newScriptedEngine(t, &journal.Memory{}, func(string, gjson.Result) ([]byte, error) {
		if failing {
			return nil, fault.New(fault.FunctionFailed, "no")
		}
		return []byte(`{}`), nil
	})
	j := g.engine.Journal()
	batch, err := j.BeginBatch(t.Context(), &journal.Start{Chain: "nightly"})
	must(t, err)
	wantCounts := func(want journal.Parts) {
		t.Helper()
		rows, err := j.List(t.Context(), &journal.Filter{Parent: &batch})
		if err != nil || len(rows) != want.Total() {
			t.Errorf("runs of the batch: %+v, %v; want %d", rows, err, want.Total())
		}
		got, err := j.Parts(t.Context(), []string{batch})
		if err != nil || got[batch][journal.OK] != want[journal.OK] || got[batch][journal.Failed] != want[journal.Failed] {
			t.Errorf("parts of the batch: %v, %v; want %v", got, err, want)
		}
	}
	caller := &chain.Caller{Parent: batch}
	a := g.engine.Run(t.Context(), []byte(`{"steps":[{"fn":"store.put"}]}`), caller)
	wantCounts(journal.Parts{journal.Failed: 1})
	failing = false
	if b := g.engine.Run(t.Context(), []byte(`{"steps":[{"fn":"store.put"}]}`), caller); !b.OK {
		t.Errorf("second run: %s, want success", b.JSON)
	}
	wantCounts(journal.Parts{journal.Failed: 1, journal.OK: 1})
	resume := gjson.GetBytes(a.JSON, "resume").Raw
	if b := g.engine.Run(t.Context(), []byte(`{"resume":`+resume+`}`), nil); !b.OK {
		t.Errorf("resume: %s, want success", b.JSON)
	}
	wantCounts(journal.Parts{journal.OK: 2})
	for _, request := range []string{`{"resume":"` + batch + `"}`, `{"resume":"` + batch + `","undo":true}`} {
		if b := g.engine.Run(t.Context(), []byte(request), nil); b.OK || b.Error.Code != fault.TokenExpired {
			t.Errorf("%s of a batch: %s, want token_expired", request, b.JSON)
		}
	}
	if err := j.SetBatchStatus(t.Context(), batch, journal.OK, ""); err != nil {
		t.Errorf("the lease of the batch is still taken: %v", err)
	}
}
