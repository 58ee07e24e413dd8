package chain_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/steps"
)

// TestPlanOfCheck: a check that is a dry run, too, gives the plan of a chain whose params have no values. The plan says what a step reads,
// and what it only waits for.
func TestPlanOfCheck(t *testing.T) {
	t.Parallel()
	calls := 0
	call := func(context.Context, []byte) ([]byte, error) { calls++; return []byte("{}"), nil }
	registry, err := steps.NewRegistry([]steps.Function{{Spec: steps.Spec{Name: "bin.get", Effect: steps.Read, EffectDeclared: true}, Call: call},
		{Spec: steps.Spec{Name: "bin.put", Effect: steps.Write, EffectDeclared: true}, Call: call}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := chain.New(&chain.Options{Functions: registry})
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(`{"params":{"k":{"type":"string"}},"steps":[{"bin.get":{"k":"$input.k"}},{"bin.get":{}},` +
		`{"bin.put":{"k":"$item"},"forEach":"$0"}]}`)
	if a := e.Run(t.Context(), text, &chain.Caller{Override: chain.Override{DryRun: true}}); a.OK || a.Plan != nil {
		t.Errorf("a dry run without the param answers %s, want a fault", a.JSON)
	}
	a := e.Run(t.Context(), text, &chain.Caller{Override: chain.Override{Check: true, DryRun: true}})
	if !a.OK || a.Plan == nil || calls > 0 {
		t.Fatalf("%d calls, and the answer %s", calls, a.JSON)
	}
	put := a.Plan.Steps[2]
	if got := fmt.Sprint(put.After, put.Needs, put.ForEach, a.Plan.Steps[0].ForEach); got != "[0 1] [0] true false" {
		t.Errorf("the write waits, reads and repeats: %s", got)
	}
}
