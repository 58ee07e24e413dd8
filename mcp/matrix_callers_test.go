package mcp_test

import (
	"fmt"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/steps"
)

// othersFunction returns the function that another caller, the administrator, calls.
func othersFunction(all []*matrixFunction) *matrixFunction {
	for _, m := range all {
		if m.Spec.Effect == steps.Read && m.Spec.Tier == steps.TierAdmin {
			return m
		}
	}
	return nil
}

// othersToken returns the token of a large result of the administrator.
func othersToken(t testing.TB, w *worldServer) string {
	t.Helper()
	return fromAdministrator(t, w, `"count":2000}}]}`, "result.continuation_token")
}

// othersRun returns the id of a failed run of the administrator, whose key is "k".
func othersRun(t testing.TB, w *worldServer) string {
	t.Helper()
	return fromAdministrator(t, w, `"count":1}},{"expr":"$0.none.none"}],"key":"k"}`, "resume")
}

// fromAdministrator runs a chain as the administrator and returns the string at a path of its answer. end is the end of the chain's text.
func fromAdministrator(t testing.TB, w *worldServer, end, path string) string {
	t.Helper()
	admin := matrixCaller("administrator", steps.TierAdmin, "")
	fn := othersFunction(w.all)
	request := fmt.Sprintf(`{"steps":[{"fn":%q,"args":{%q:"plain",%s`, fn.Spec.Name, fn.mark(inArgument), end)
	ctx := t.Context()
	if within := w.options.Context; within != nil {
		ctx = within(ctx, nil)
	}
	answer := w.options.Engine.Run(ctx, []byte(request), &chain.Caller{ID: admin.ID})
	text := gjson.GetBytes(answer.JSON, path).Str
	if text == "" {
		t.Fatalf("no %s: %s", path, answer.JSON)
	}
	return text
}
