package chain_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/steps"
)

// TestBoundOfHeavyPlan: a plan with so many steps that its compilation takes a slot for heavy work works out how often a constant forEach
// repeats, which takes a slot too.
func TestBoundOfHeavyPlan(t *testing.T) {
	t.Parallel()
	functions, err := steps.NewRegistry([]steps.Function{{Spec: steps.Spec{Name: "s.get", Effect: steps.Read},
		Call: func(context.Context, []byte) ([]byte, error) { return []byte("1"), nil }}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := chain.New(&chain.Options{Functions: functions, Admission: admit.Default(), MaxCalls: 1000})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // longer than any correct test takes
	defer cancel()
	text := `{"steps":[` + strings.TrimSuffix(strings.Repeat(`{"fn":"s.get","forEach":"1..20"},`, 100), ",") + `]}`
	answer := engine.Run(ctx, []byte(text), &chain.Caller{ID: "ann"})
	if answer.OK || !strings.Contains(string(answer.JSON), "the chain makes at least 2000 calls") {
		t.Errorf("got %s, want a fault about 2000 calls", answer.JSON)
	}
}
