package chain_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
)

// TestCallerBound: the caller's own limit holds for all answers except those to fetches, and lowers the budget of the request. The front
// end's warnings are in the answer exactly if Answer.Warned says so, and no answer loses its result for them.
func TestCallerBound(t *testing.T) {
	t.Parallel()
	schema := compileSchemas(t)[1]
	e := engine(t, &world{}, chain.Options{MaxTotalTokens: 2000})
	counter := newCounter(t, 0)
	rapid.Check(t, func(r *rapid.T) {
		caller := &chain.Caller{MaxTotalTokens: rapid.SampledFrom([]int{0, 1, 150, 200, 300, 5000}).Draw(r, "the caller's")}
		length := rapid.SampledFrom([]int{0, 20, 130}).Draw(r, "words of the notice")
		if length > 0 {
			caller.Warnings = []*fault.Error{fault.New(fault.LimitExceeded, "a notice of the door: %s", strings.Repeat("words ", length))}
		}
		requested := rapid.SampledFrom([]int{150, 170, 250, 400, 9000}).Draw(r, "asked")
		size := rapid.SampledFrom([]int{1, 20, 60, 100, 150, 300, 1500}).Draw(r, "size")
		lite, fails := rapid.Bool().Draw(r, "lite"), rapid.Bool().Draw(r, "fails")
		fn, value := "test.get", `"value":"`+strings.Repeat("many words ", size)+`"`
		if fails {
			fn, value = "test.fail", strings.Replace(value, "value", "message", 1)
		}
		request := fmt.Sprintf(`{"lite":%v,"budget":{"maxTotalTokens":%d},"steps":[{"fn":%q,"args":{%s}}]}`, lite, requested, fn, value)
		a := e.Run(context.Background(), []byte(request), caller)
		maximum := min(requested, 2000)
		if n := caller.MaxTotalTokens; n > 0 {
			maximum = min(maximum, max(n, 150))
		}
		if n := counter.Count(a.JSON, -1); n > maximum || a.OK == fails {
			r.Fatalf("%d tokens, limit %d, want success %t: %s", n, maximum, !fails, a.JSON)
		}
		hasNotice := strings.Contains(string(a.JSON), "a notice of the door")
		if hasNotice != a.Warned || hasNotice && (len(caller.Warnings) == 0 || lite && !fails) {
			r.Fatalf("Warned is %v, the answer has the notice: %v; want the same, and a notice only if one was given and the answer is not a lite success: %s", a.Warned, hasNotice, a.JSON)
		}
		if !hasNotice && len(caller.Warnings) > 0 && (!lite || fails) && maximum >= 300 && length == 20 {
			r.Fatalf("the answer lacks the notice, limit %d: %s", maximum, a.JSON)
		}
		if lite && !fails {
			return
		}
		validate(t, schema, a.JSON)
		if limit := gjson.GetBytes(a.JSON, "usage.limit").Int(); limit != int64(maximum) {
			r.Fatalf("limit %d, want %d", limit, maximum)
		}
		result := gjson.GetBytes(a.JSON, "result")
		if fails {
			return
		}
		if !result.Exists() {
			r.Fatalf("the answer lacks its result: %s", a.JSON)
		}
		token := result.Get("continuation_token").Str
		if token == "" {
			return
		}
		if result.Get("preview").Str == "" {
			r.Fatalf("the probe lacks its preview, limit %d: %s", maximum, a.JSON)
		}
		fetched := e.Run(context.Background(), fmt.Appendf(nil, `{"continuation_token":%q,"mode":"summary"}`, token), caller)
		if limit := gjson.GetBytes(fetched.JSON, "usage.limit").Int(); !fetched.OK || limit != 2000 ||
			fetched.Warned != (len(caller.Warnings) > 0) {
			r.Fatalf("fetch: %s, want success, limit 2000 and the notice", fetched.JSON)
		}
	})
}
