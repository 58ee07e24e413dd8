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

// treeEngine returns an engine with one function that returns treeResult, with an output schema or without one.
func treeEngine(t testing.TB, output string) *chain.Engine {
	t.Helper()
	e := engineOf(t, []steps.Function{{
		Spec: steps.Spec{Name: "test.tree", Description: "Gives a tree.", Effect: steps.Read, EffectDeclared: true,
			Input: json.RawMessage(`{"type":"object","properties":{"value":{},"list":{"type":"array"}}}`), Output: json.RawMessage(output)},
		Call: func(context.Context, []byte) ([]byte, error) { return []byte(treeResult), nil },
	}}, chain.Options{}, false)
	return e
}

// TestPathFaultsAreCertain: a chain that is refused because of an output schema would have failed. The same chain never succeeds if the
// function declares no output schema.
func TestPathFaultsAreCertain(t *testing.T) {
	t.Parallel()
	closed, open := treeEngine(t, treeSchema), treeEngine(t, "")
	paths := []string{"", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", ".rows", ".rows[*]", ".rows[*].id",
		".rows[0]", ".rows[-1].sub", ".rows[*].tags", ".rows[*].tags[**]", ".rows[*].sub.k", ".total", ".pairs", ".pairs[*][0]", ".pairs[**]",
		"[0]", "[*]", "[*].id", "[0].tags", "[*].total", "[0].rows", ".0", ".id", ".sub.k", ".tags[-1]", ".nope",
		"[*].nope", ".rows.id", "[**]", "[*][0]", ".nope?.x", ".rows[*]?.nope"}
	ran, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		path := func(root string) string {
			return root + strings.Join(rapid.SliceOfN(rapid.SampledFrom(paths), 1, 2).Draw(t, "path"), "")
		}
		maybe := func(odds int) bool { return rapid.IntRange(1, odds).Draw(t, "maybe") == 1 }
		step := func(forEach string, roots ...string) map[string]any {
			root := rapid.SampledFrom(roots).Draw(t, "root")
			s := map[string]any{"fn": "test.tree", "args": map[string]any{rapid.SampledFrom([]string{"value", "list"}).Draw(t, "arg"): path(root)}}
			if maybe(4) {
				s = map[string]any{"args": s["args"], "chain": map[string]any{"steps": []any{map[string]any{"fn": "test.tree"}}, "return": path("$0")}}
			}
			if forEach != "" {
				s["forEach"] = forEach
			}
			if maybe(4) {
				s["repeat"] = map[string]any{"until": "true", "max": 1, "collect": path("$result")}
			}
			if maybe(3) {
				s["select"] = path("$result")
			}
			if maybe(4) {
				s["when"] = "true"
			}
			return s
		}
		first := step(rapid.SampledFrom([]string{"", "", "[1, 2]"}).Draw(t, "forEach"), "$input")
		first["args"] = map[string]any{}
		second := step(path("$0"), "$item", "$0")
		request, err := json.Marshal(map[string]any{"steps": []any{first, second}, "return": []any{path("$0"), path("$1")}})
		must(t, err)
		checked := closed.Run(context.Background(), request, &chain.Caller{Override: chain.Override{Check: true}})
		answer := open.Run(context.Background(), request, nil)
		switch {
		case checked.OK:
			ran++
		case answer.OK:
			t.Errorf("%s\nwas refused: %s\nbut succeeds without a schema: %s", request, checked.JSON, answer.JSON)
		default:
			refused++
		}
	})
	t.Logf("%d ran, %d were refused", ran, refused)
}
