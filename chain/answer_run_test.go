package chain_test

import (
	"context"
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

// TestCheckTakesNoRun: a check of a request that would undo or resume a run does neither, and the run can be taken afterwards.
func TestCheckTakesNoRun(t *testing.T) {
	t.Parallel()
	undone := 0
	write := func(name string, undo *steps.Undo, call func()) steps.Function {
		return steps.Function{Spec: steps.Spec{Name: name, EffectDeclared: true, Undo: undo},
			Call: func(context.Context, []byte) ([]byte, error) { call(); return []byte("1"), nil }}
	}
	functions, err := steps.NewRegistry([]steps.Function{write("store.put", &steps.Undo{Function: "store.remove"}, func() {}),
		write("store.remove", nil, func() { undone++ })}, nil)
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.New(&journal.Memory{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	e, err := chain.New(&chain.Options{Functions: functions, Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	run := e.Run(t.Context(), []byte(`{"steps":[{"fn":"store.put"},{"expr":"fromJSON(\"x\")"}]}`), nil).Run
	check := &chain.Caller{Override: chain.Override{Check: true}}
	for _, request := range []string{`{"resume":"` + run + `","undo":true}`, `{"resume":"` + run + `"}`} {
		if a := e.Run(t.Context(), []byte(request), check); undone != 0 {
			t.Errorf("the check of %s made %d undos: %s", request, undone, a.JSON)
		}
	}
	if a := e.Run(t.Context(), []byte(`{"resume":"`+run+`","undo":true}`), nil); !a.OK || undone != 1 {
		t.Errorf("the undo after the checks made %d calls: %s", undone, a.JSON)
	}
}
