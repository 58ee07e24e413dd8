package chain_test

import (
	"context"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/steps"
	stepschema "github.com/onecall-mcp/onecall/steps/schema"
)

// seenRegistry has one function that declares no result and whose results were seen.
func seenRegistry(t *testing.T) *steps.Registry {
	t.Helper()
	call := func(context.Context, []byte) ([]byte, error) {
		return []byte(`{"items":[{"id":1,"tags":["a"]}],"total":1}`), nil
	}
	r, err := steps.NewRegistry([]steps.Function{{Spec: steps.Spec{Name: "s.list", Effect: steps.Read}, Call: call}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := &steps.ResultShape{Schema: []byte(`{"type":"object","properties":{"items":{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},` +
		`"tags":{"type":"array","items":{"type":"string"}}},"additionalProperties":false}},"total":{"type":"integer"}},"additionalProperties":false}`),
		Rare: func(path []stepschema.Element) bool { return path[0].Key == "rare" }}
	return r.Learn(func(_ *steps.Spec, call steps.Call) (steps.Call, func() *steps.ResultShape) {
		return call, func() *steps.ResultShape { return seen }
	})
}

// TestUnseenIsWarnedOf: a reference to what no result had so far is a warning with the nearest name, in every place; it stops
// nothing.
func TestUnseenIsWarnedOf(t *testing.T) {
	t.Parallel()
	engine, err := chain.New(&chain.Options{Functions: seenRegistry(t)})
	if err != nil {
		t.Fatal(err)
	}
	const first = `{"fn":"s.list"}`
	for request, nearest := range map[string]string{
		`{"steps":[` + first + `,{"fn":"s.list","args":{"a":"$0.itmes"}}]}`:                        "items",
		`{"steps":[` + first + `,{"fn":"s.list","args":{"a":["${$0.items[0].idd} x"]}}]}`:          "id",
		`{"steps":[` + first + `,{"fn":"s.list","when":"$0.totl > 0"}]}`:                           "total",
		`{"steps":[` + first + `,{"fn":"s.list","forEach":"$0.items","args":{"a":"$item.tgas"}}]}`: "tags",
		`{"steps":[` + first + `,{"fn":"s.list","forEach":"$0.items[*].tagss"}]}`:                  "tags",
		`{"steps":[` + first + `,{"expr":"sum($0.itms, .id)"}]}`:                                   "items",
		`{"steps":[{"fn":"s.list","select":"$result.itens"}]}`:                                     "items",
		`{"steps":[` + first + `],"return":{"a":"$0.items[-1].ids"}}`:                              "id",
		`{"steps":[` + first + `],"return":"$0.total.items"}`:                                      "-",
		`{"steps":[` + first + `],"return":"$0.items[0].id"}`:                                      "",
		`{"steps":[` + first + `],"return":"$0.itms?.id"}`:                                         "",
		`{"steps":[` + first + `],"return":"$0.itms ?? 1"}`:                                        "",
		`{"steps":[` + first + `],"return":"$0.rare"}`:                                             "",
	} {
		answer := engine.Run(t.Context(), []byte(request), &chain.Caller{Override: chain.Override{Check: true}})
		if !answer.OK {
			t.Errorf("%s: %s", request, answer.JSON)
			continue
		}
		got := ""
		if len(answer.Warnings) == 1 {
			if got = "-"; len(answer.Warnings[0].Nearest) > 0 {
				got = answer.Warnings[0].Nearest[0]
			}
		}
		if got != nearest || len(answer.Warnings) > 1 {
			t.Errorf("%s: %v, want %q", request, answer.Warnings, nearest)
		}
	}
	answer := engine.Run(t.Context(), []byte(`{"steps":[`+first+`],"return":{"a":"$0?.itmes","b":"$0.total","c":"$0.totale ?? 0"}}`), nil)
	if !answer.OK || len(answer.Warnings) > 0 {
		t.Errorf("%s", answer.JSON)
	}
	answer = engine.Run(t.Context(), []byte(`{"steps":[`+first+`],"return":"$0.totals"}`), nil)
	if want := `"message":"s.list: no member \"totals\": its result has items, total, as far as results of it were seen: did you mean \"total\"?"`; !strings.Contains(string(answer.JSON), want) {
		t.Errorf("%s", answer.JSON)
	}
}

// TestHiddenShapes: who may not use a function learns nothing of what its results look like.
func TestHiddenShapes(t *testing.T) {
	t.Parallel()
	engine, err := chain.New(&chain.Options{Functions: seenRegistry(t)})
	if err != nil {
		t.Fatal(err)
	}
	nobody := &chain.Caller{Functions: seenRegistry(t).View(func(*steps.Spec) bool { return false })}
	for _, request := range []string{`{"steps":[{"fn":"s.list"}],"return":"$0.totals"}`,
		`{"dryRun":true,"steps":[{"fn":"s.list","select":"$result.itens"}]}`} {
		text := string(engine.Run(t.Context(), []byte(request), nobody).JSON)
		if !strings.Contains(text, "unknown_function") || strings.Contains(text, "total,") || strings.Contains(text, "items") ||
			strings.Contains(text, "seen") {
			t.Error(text)
		}
	}
}
