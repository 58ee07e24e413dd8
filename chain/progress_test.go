package chain_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	var reports []string
	caller := &chain.Caller{Progress: func(p chain.Progress) {
		reports = append(reports, fmt.Sprintf("%d/%d step %d %s %t", p.Done, p.Total, p.Step, p.Function, p.Ended))
	}}
	request := `{"steps":[{"fn":"test.get","args":{"value":1}},{"chain":{"steps":[{"fn":"test.write"}]}},{"fn":"test.get","when":"false","args":{"value":1}}]}`
	if answer := engine(t, &world{}, chain.Options{}).Run(context.Background(), []byte(request), caller); !answer.OK {
		t.Fatal(string(answer.JSON))
	}
	want := []string{"0/3 step 0 test.get false", "1/3 step 0 test.get true", "1/3 step 1  false", "2/3 step 1  true",
		"2/3 step 2 test.get false", "3/3 step 2 test.get true"}
	if !slices.Equal(reports, want) {
		t.Errorf("told %q, want %q", reports, want)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	registry := registryOf(t, &world{})
	for name, test := range map[string]struct {
		o    *chain.Options
		want fault.Code
	}{
		"nil":          {nil, fault.BadRequest},
		"no functions": {&chain.Options{}, fault.BadRequest},
		"below zero":   {&chain.Options{Functions: registry, MaxCalls: -1}, fault.BadRequest},
		"a duration":   {&chain.Options{Functions: registry, StepTimeout: -1}, fault.BadRequest},
		"small budget": {&chain.Options{Functions: registry, MaxTotalTokens: 149}, fault.BudgetTooSmall},
		"all defaults": {&chain.Options{Functions: registry}, ""},
	} {
		if _, err := chain.New(test.o); fault.CodeOf(err) != test.want {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}
