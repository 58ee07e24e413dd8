package chain_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/steps"
)

const (
	treeResult = `{"rows":[{"id":1,"tags":["a"],"sub":{"k":null}},{"id":2,"tags":["b","c"],"sub":{"k":3}}],"total":2,"pairs":[[1,2],[3]]}`
	treeSchema = `{"type":"object","additionalProperties":false,"properties":{"total":{"type":"integer"},` +
		`"pairs":{"type":"array","items":{"type":"array","items":{"type":"integer"}}},` +
		`"rows":{"type":"array","items":{"type":"object","additionalProperties":false,"properties":{"id":{"type":"integer"},` +
		`"tags":{"type":"array","items":{"type":"string"}},"sub":{"type":"object","additionalProperties":false,"properties":{"k":{"type":["integer","null"]}}}}}}}}`
)

// treeEngine returns an engine with one function, which returns treeResult. output is its output schema; "" means none.
func treeEngine(t testing.TB, output string) *chain.Engine {
	t.Helper()
	e := engineOf(t, []steps.Function{{
		Spec: steps.Spec{Name: "test.tree", Description: "Gives a tree.", Effect: steps.Read, EffectDeclared: true,
			Input: json.RawMessage(`{"type":"object","properties":{"value":{},"list":{"type":"array"}}}`), Output: json.RawMessage(output)},
		Call: func(context.Context, []byte) ([]byte, error) { return []byte(treeResult), nil },
	}}, chain.Options{}, false)
	return e
}

// TestPathFaultsAreCertain checks that an output schema causes no false faults: if a chain is refused when the function has an output
// schema, it must fail when the function has none.
func TestPathFaultsAreCertain(t *testing.T) {
	t.Parallel()
	withSchema, withoutSchema := treeEngine(t, treeSchema), treeEngine(t, "")
	// "" is repeated so that it is drawn often: each other path exists in few values.
	paths := []string{"", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", ".rows", ".rows[*]", ".rows[*].id",
		".rows[0]", ".rows[-1].sub", ".rows[*].tags", ".rows[*].tags[**]", ".rows[*].sub.k", ".total", ".pairs", ".pairs[*][0]", ".pairs[**]",
		"[0]", "[*]", "[*].id", "[0].tags", "[*].total", "[0].rows", ".0", ".id", ".sub.k", ".tags[-1]", ".nope",
		"[*].nope", ".rows.id", "[**]", "[*][0]", ".nope?.x", ".rows[*]?.nope"}
	passed, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		path := func(root string) string {
			return root + strings.Join(rapid.SliceOfN(rapid.SampledFrom(paths), 1, 2).Draw(t, "path"), "")
		}
		oneIn := func(n int) bool { return rapid.IntRange(1, n).Draw(t, "oneIn") == 1 }
		step := func(forEach string, roots ...string) map[string]any {
			root := rapid.SampledFrom(roots).Draw(t, "root")
			s := map[string]any{"fn": "test.tree", "args": map[string]any{rapid.SampledFrom([]string{"value", "list"}).Draw(t, "arg"): path(root)}}
			if oneIn(4) {
				s = map[string]any{"args": s["args"], "chain": map[string]any{"steps": []any{map[string]any{"fn": "test.tree"}}, "return": path("$0")}}
			}
			if forEach != "" {
				s["forEach"] = forEach
			}
			if oneIn(4) {
				s["repeat"] = map[string]any{"until": "true", "max": 1, "collect": path("$result")}
			}
			if oneIn(3) {
				s["select"] = path("$result")
			}
			if oneIn(4) {
				s["when"] = "true"
			}
			return s
		}
		first := step(rapid.SampledFrom([]string{"", "", "[1, 2]"}).Draw(t, "forEach"), "$input")
		first["args"] = map[string]any{}
		second := step(path("$0"), "$item", "$0")
		request, err := json.Marshal(map[string]any{"steps": []any{first, second}, "return": []any{path("$0"), path("$1")}})
		must(t, err)
		checked := withSchema.Run(context.Background(), request, &chain.Caller{Override: chain.Override{Check: true}})
		answer := withoutSchema.Run(context.Background(), request, nil)
		switch {
		case checked.OK:
			passed++
		case answer.OK:
			t.Errorf("%s\nis refused with an output schema: %s\nbut succeeds without one: %s", request, checked.JSON, answer.JSON)
		default:
			refused++
		}
	})
	t.Logf("%d chains passed the check, %d were refused and failed", passed, refused)
}

// TestMisfitIsAWarning: a result that does not fit its schema is told once a function, and is the result all the same.
func TestMisfitIsAWarning(t *testing.T) {
	t.Parallel()
	e := treeEngine(t, `{"type":"object","properties":{"result":{"type":"string"}},"required":["result"],"additionalProperties":false}`)
	for _, request := range []string{
		`{"steps":[{"fn":"test.tree"},{"fn":"test.tree","forEach":"[1,2,3]"}],"return":"$0?.total"}`,
		`{"steps":[{"chain":{"steps":[{"fn":"test.tree"}]},"args":{}}],"return":"$0?.total"}`,
	} {
		answer := e.Run(t.Context(), []byte(request), nil)
		if !strings.HasPrefix(string(answer.JSON), `{"ok":true,"result":2,`) {
			t.Fatalf("%s: got %s, want 2", request, answer.JSON)
		}
		if count := strings.Count(string(answer.JSON), "does not fit its output schema"); count != 1 {
			t.Errorf("%s: got %d warnings in %s, want one", request, count, answer.JSON)
		}
	}
}
