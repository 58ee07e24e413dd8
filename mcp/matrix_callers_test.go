package mcp_test

import (
	"fmt"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/steps"
)

// adminFunction returns the function that another caller, the administrator, calls.
func adminFunction(all []*matrixFunction) *matrixFunction {
	for _, m := range all {
		if m.Spec.Effect == steps.Read && m.Spec.Tier == steps.TierAdmin {
			return m
		}
	}
	return nil
}

// adminToken returns the token of a large result of the administrator.
func adminToken(t testing.TB, w *worldServer) string {
	t.Helper()
	return runAsAdmin(t, w, `"count":2000}}]}`, "result.continuation_token")
}

// adminRun returns the id of a failed run of the administrator, whose key is "k".
func adminRun(t testing.TB, w *worldServer) string {
	t.Helper()
	return runAsAdmin(t, w, `"count":1}},{"expr":"$0.none.none"}],"key":"k"}`, "resume")
}

// runAsAdmin runs a chain as the administrator and returns the string at a path of its answer. end is the end of the chain's text.
func runAsAdmin(t testing.TB, w *worldServer, end, path string) string {
	t.Helper()
	admin := matrixCaller("administrator", steps.TierAdmin, "")
	fn := adminFunction(w.all)
	request := fmt.Sprintf(`{"steps":[{"fn":%q,"args":{%q:"plain",%s`, fn.Spec.Name, fn.mark(inArgument), end)
	ctx := t.Context()
	if wrap := w.options.Context; wrap != nil {
		ctx = wrap(ctx, nil)
	}
	answer := w.options.Engine.Run(ctx, []byte(request), &chain.Caller{ID: admin.ID})
	text := gjson.GetBytes(answer.JSON, path).Str
	if text == "" {
		t.Fatalf("the answer lacks %s: %s", path, answer.JSON)
	}
	return text
}
