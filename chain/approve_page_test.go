package chain_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// TestApprovalNamesItsPage: where a console is served, an answer that waits for a person names the page of the run there.
func TestApprovalNamesItsPage(t *testing.T) {
	t.Parallel()
	registry, err := steps.NewRegistry([]steps.Function{{
		Spec: steps.Spec{Name: "guarded.put", Effect: steps.Write, EffectDeclared: true},
		Call: func(context.Context, []byte) ([]byte, error) { return []byte(`1`), nil }}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, byPerson := range []bool{false, true} {
		j, err := journal.New(&journal.Memory{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { j.Close() })
		e, err := chain.New(&chain.Options{Functions: registry, Journal: j, Approve: steps.ApproveWrite, ApproveByPerson: byPerson,
			Console: "https://tools.example.com/console/"})
		if err != nil {
			t.Fatal(err)
		}
		a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"guarded.put"}]}`), nil)
		run := gjson.GetBytes(a.JSON, "resume").Str
		page := "https://tools.example.com/console/runs/" + run + "/approve"
		if a.Error == nil || a.Error.Code != fault.ApprovalRequired || !strings.HasSuffix(a.Error.Message, " in the console, "+page) {
			t.Errorf("by a person only: %t: %s, want the page %s", byPerson, a.JSON, page)
		}
		a = e.Run(t.Context(), fmt.Appendf(nil, `{"resume":%q,"approve":"oca_x"}`, run), nil)
		if a.Error == nil || a.Error.Code != fault.Denied || strings.Contains(a.Error.Message, page) != byPerson {
			t.Errorf("a guessed approval: %s, want denied, with the page: %t", a.JSON, byPerson)
		}
	}
}
