package chain_test

import (
	"context"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
)

// TestFlowApprovalHolds: what a person has approved, a resume makes without another question, however the client has spelled the call.
func TestFlowApprovalHolds(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]string{
		"a short step":    `{"steps":[{"mail.send":{"to":"eve"}}]}`,
		"fn and args":     `{"steps":[{"fn":"mail.send","args":{"to":"eve"}}]}`,
		"after a step":    `{"steps":[{"mail.list":{}},{"mail.send":{"to":"eve","after":"$0.from"}}]}`,
		"common":          `{"common":{"to":"eve"},"steps":[{"mail.send":{}}]}`,
		"input":           `{"input":{"to":"eve"},"steps":[{"mail.send":{"to":"$input.to"}}]}`,
		"an inline chain": `{"steps":[{"chain":{"steps":[{"mail.send":{"to":"eve"}}]}}]}`,
		"each":            `{"steps":[{"mail.send":{"to":"$item"},"forEach":"[\"eve\"]"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t, nil)
			e, sent := mailEngine(t, "approve", chain.Options{Journal: j})
			m := newModel(e)
			m.send(t.Context(), chainOf("mail.list", `{}`, ""))
			a := m.send(t.Context(), request)
			run := gjson.GetBytes(a.JSON, "resume").Str
			if len(sent()) > 0 || run == "" {
				t.Fatalf("nobody is asked: %s", a.JSON)
			}
			if _, err := chain.Decide(t.Context(), j, run, &chain.Ruling{Rest: journal.Approved}); err != nil {
				t.Fatal(err)
			}
			asked := 0
			m.approve = func(context.Context, []chain.ApprovalCall) (bool, error) { asked++; return true, nil }
			if a = m.send(t.Context(), `{"resume":"`+run+`"}`); !a.OK || asked > 0 || len(sent()) != 1 {
				t.Errorf("asked %d times after the approval, sent %q: %s", asked, sent(), a.JSON)
			}
		})
	}
}
