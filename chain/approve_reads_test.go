package chain_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// readEngine returns an engine of functions that only read: guarded.get, whose calls need approval if approve says so, and open.get.
// calls returns the calls so far.
func readEngine(t *testing.T, approve, server string) (e *chain.Engine, calls func() []string) {
	t.Helper()
	var mu sync.Mutex
	var log []string
	var functions []steps.Function
	for name, approve := range map[string]string{"guarded.get": approve, "open.get": ""} {
		functions = append(functions, steps.Function{
			Spec: steps.Spec{Name: name, Effect: steps.Read, EffectDeclared: true, Idempotent: true, Approve: approve},
			Call: func(_ context.Context, args []byte) ([]byte, error) {
				mu.Lock()
				defer mu.Unlock()
				if log = append(log, name+" "+gjson.GetBytes(args, "k").String()); gjson.GetBytes(args, "k").Str == "fail" {
					return nil, fault.New(fault.FunctionFailed, "no")
				}
				return args, nil
			}})
	}
	registry, err := steps.NewRegistry(functions, nil)
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.New(&journal.Memory{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	if e, err = chain.New(&chain.Options{Functions: registry, Journal: j, Approve: server}); err != nil {
		t.Fatal(err)
	}
	return e, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(log)
	}
}

// TestApproveReads checks that a read that needs approval is made only after it, once, after all earlier steps and before all later ones.
func TestApproveReads(t *testing.T) {
	t.Parallel()
	e, calls := readEngine(t, steps.ApproveAlways, "")
	a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"open.get","args":{"k":"a"}},{"fn":"guarded.get","forEach":"['x','y']","args":{"k":"$item"}},`+
		`{"fn":"open.get","args":{"k":"b"}}]}`), nil)
	waiting := gjson.GetBytes(a.JSON, "error.calls")
	if a.OK || a.Error.Code != fault.ApprovalRequired || !slices.Equal(calls(), []string{"open.get a"}) || len(waiting.Array()) != 2 ||
		waiting.Get("0.effect").Str != "read" {
		t.Fatalf("calls %q, answer %s; want one call, and two that wait", calls(), a.JSON)
	}
	run, token := gjson.GetBytes(a.JSON, "resume").Str, gjson.GetBytes(a.JSON, "approve").Str
	a = e.Run(t.Context(), fmt.Appendf(nil, `{"resume":%q,"approve":%q}`, run, token), nil)
	got := calls()
	slices.Sort(got[1:3])
	if !a.OK || !slices.Equal(got, []string{"open.get a", "guarded.get x", "guarded.get y", "open.get b"}) {
		t.Fatalf("approved: calls %q, answer %s; want the approved calls and then the last", got, a.JSON)
	}
}

// TestApprovedReadIsUsed checks that an approval covers one call of a read: if it fails, a resume asks again.
func TestApprovedReadIsUsed(t *testing.T) {
	t.Parallel()
	e, calls := readEngine(t, steps.ApproveAlways, "")
	a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"guarded.get","args":{"k":"fail"}}]}`), nil)
	run, token := gjson.GetBytes(a.JSON, "resume").Str, gjson.GetBytes(a.JSON, "approve").Str
	if a = e.Run(t.Context(), fmt.Appendf(nil, `{"resume":%q,"approve":%q}`, run, token), nil); a.OK || a.Error.Code != fault.FunctionFailed {
		t.Fatalf("approved: %s, want the function's failure", a.JSON)
	}
	a = e.Run(t.Context(), fmt.Appendf(nil, `{"resume":%q}`, run), nil)
	if a.OK || a.Error.Code != fault.ApprovalRequired || len(calls()) != 1 {
		t.Errorf("resumed: calls %q, answer %s; want one call and another question", calls(), a.JSON)
	}
}

// TestServerApprovesReads checks the server's own setting: always asks for reads, write does not, and never of a function wins.
func TestServerApprovesReads(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		function, server string
		asks             bool
	}{{"", steps.ApproveAlways, true}, {"", steps.ApproveWrite, false}, {steps.ApproveNever, steps.ApproveAlways, false},
		{steps.ApproveWrite, "", false}} {
		e, calls := readEngine(t, test.function, test.server)
		a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"guarded.get","args":{"k":"a"}}]}`), nil)
		if a.OK == test.asks || test.asks && (a.Error.Code != fault.ApprovalRequired || len(calls()) > 0) {
			t.Errorf("function %q, server %q: calls %q, answer %s; asks: want %t", test.function, test.server, calls(), a.JSON, test.asks)
		}
	}
}
