package chain_test

import (
	"testing"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	registry := registryOf(t, &world{})
	for name, test := range map[string]struct {
		o    *chain.Options
		want fault.Code
	}{
		"nil":               {nil, fault.BadRequest},
		"no functions":      {&chain.Options{}, fault.BadRequest},
		"negative number":   {&chain.Options{Functions: registry, MaxCalls: -1}, fault.BadRequest},
		"negative duration": {&chain.Options{Functions: registry, StepTimeout: -1}, fault.BadRequest},
		"small budget":      {&chain.Options{Functions: registry, MaxTotalTokens: 149}, fault.BudgetTooSmall},
		"all defaults":      {&chain.Options{Functions: registry}, ""},
	} {
		if _, err := chain.New(test.o); fault.CodeOf(err) != test.want {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// TestHoistFaults: a name that is a field of any request cannot be hoisted.
func TestHoistFaults(t *testing.T) {
	t.Parallel()
	refused := []string{"", "steps", "input", "lite", "verify", "fn", "args", "forEach", "id", "continuation_token", "mode", "query",
		"page_size", "resume", "approve", "undo", "chain", "action", "resource", "params", "schema", "again", "names"}
	registry := registryOf(t, &world{})
	for _, name := range refused {
		_, err := chain.New(&chain.Options{Functions: registry, Hoist: []string{"repoId", name}})
		if f, ok := fault.As(err); !ok || f.Code != fault.BadRequest || f.At != "/hoist/1" {
			t.Errorf("%q: %v, want bad_request at /hoist/1", name, err)
		}
	}
}
