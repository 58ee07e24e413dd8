package chain_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// TestResumePreviewOfElements checks that a dry run of a resume tells which elements are in the journal, and counts only calls that are
// left.
func TestResumePreviewOfElements(t *testing.T) {
	t.Parallel()
	put := steps.Function{Spec: steps.Spec{Name: "bin.put", EffectDeclared: true}, Call: func(_ context.Context, args []byte) ([]byte, error) {
		if gjson.GetBytes(args, "k").Str == "bad" {
			return nil, fault.New(fault.FunctionFailed, "no")
		}
		return args, nil
	}}
	registry, err := steps.NewRegistry([]steps.Function{put}, nil)
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.New(&journal.Memory{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	e, err := chain.New(&chain.Options{Functions: registry, Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	a := e.Run(t.Context(), []byte(`{"input":{"ks":["a","b","bad"]},"steps":[{"fn":"bin.put","args":{"k":"first"}},`+
		`{"fn":"bin.put","forEach":"$input.ks","args":{"k":"$item"}},{"fn":"bin.put","args":{"k":"last"}}]}`), nil)
	run := gjson.GetBytes(a.JSON, "resume").Str
	if a.OK || run == "" {
		t.Fatalf("the run: %s, want a failure that can be resumed", a.JSON)
	}
	a = e.Run(t.Context(), fmt.Appendf(nil, `{"resume":%q,"input":{"ks":["a","b","good"]},"dryRun":true}`, run), nil)
	got := gjson.GetManyBytes(a.JSON, "plan.resume.reused", "plan.resume.made", "plan.resume.partly", "plan.bound.calls.2")
	if fmt.Sprint(got) != `[[0] [1,2] [{"step":1,"reused":2,"elements":3}] 2]` {
		t.Errorf("the preview: %v in %s", got, a.JSON)
	}
}
