package chain_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/steps"
)

// usesText writes what a chain uses, a line for each call and each path.
func usesText(uses []chain.FunctionUse) string {
	var b strings.Builder
	for _, use := range uses {
		for _, call := range use.Calls {
			fmt.Fprintf(&b, "%s %s:", use.Function, call.Step)
			for _, given := range call.Given {
				kind := "made"
				if given.Literal {
					kind = "literal"
				}
				fmt.Fprintf(&b, " %s=%s", strings.Join(given.Path, "."), kind)
			}
			b.WriteString("\n")
		}
		for _, path := range use.Reads {
			fmt.Fprintf(&b, "%s reads .%s\n", use.Function, strings.Join(path, "."))
		}
	}
	return b.String()
}

func TestUses(t *testing.T) {
	t.Parallel()
	fn := func(name, input, output, defaults string) steps.Function {
		return steps.Function{Spec: steps.Spec{Name: name, Effect: steps.Read, Input: []byte(input), Output: []byte(output),
			Defaults: []byte(defaults)}, Call: func(context.Context, []byte) ([]byte, error) { return []byte("{}"), nil }}
	}
	list := `{"type":"object","properties":{"items":{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},` +
		`"owner":{"type":"object","properties":{"name":{"type":"string"}}}}}},"next":{"type":"string"}}}`
	inner := fn("chain.inner", `{"type":"object","properties":{"id":{}}}`, "", "")
	inner.Saved = &steps.SavedChain{Text: []byte(`{"steps":[{"s.get":{"item_id":"$input.id","view":"full"}}],"return":"$0.items[0].owner"}`),
		Names: []string{"s.get"}}
	functions, err := steps.NewRegistry([]steps.Function{
		fn("s.list", `{"type":"object","properties":{"filter":{"type":"object"},"tags":{"type":"array"}}}`, list, ""),
		fn("s.get", `{"type":"object","properties":{"itemId":{},"view":{}},"required":["itemId"]}`, list, `{"lang":"en"}`),
		fn("s.undo", `{"type":"object","properties":{"id":{}}}`, "", ""), inner}, nil)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := chain.New(&chain.Options{Functions: functions.LinkChains(nil)})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ chain, want string }{
		"literals and references": {`{"input":{"q":1},"steps":[{"s.list":{"filter":{"a":1,"b":"$input.q","c":{}},"tags":["x","$input.q",[]]}}]}`,
			"s.list /steps/0: filter.a=literal filter.b=made filter.c=literal tags.*=literal tags.*=made tags.*=literal\n"},
		"another spelling, and defaults": {`{"steps":[{"s.get":{"item_id":"$input.q"}}],"input":{"q":1}}`,
			"s.get /steps/0: itemId=made lang=literal\n"},
		"whole arguments": {`{"input":{"q":{}},"steps":[{"fn":"s.list","args":{"filter":"$input.q"}}]}`,
			"s.list /steps/0: filter=made\n"},
		"within a text": {`{"input":{"q":1},"steps":[{"s.get":{"itemId":"a ${$input.q} b"}}]}`,
			"s.get /steps/0: itemId=made lang=literal\n"},
		"no arguments": {`{"steps":[{"s.list":{}}]}`, "s.list /steps/0:\n"},
		"common": {`{"common":{"view":"full"},"steps":[{"s.get":{"itemId":1}}]}`,
			"s.get /steps/0: itemId=literal view=literal lang=literal\n"},
		"what it reads": {`{"steps":[{"s.list":{}},{"fn":"s.get","args":{"itemId":"$item.id"},"forEach":"$0.items"},` +
			`{"expr":"$1[0].next + $0?.next"}],"return":["$1[*].items[*].owner.name","$0"]}`,
			"s.get /steps/1: itemId=made lang=literal\ns.get reads .next\ns.get reads .items.*.owner.name\n" +
				"s.list /steps/0:\ns.list reads .items\ns.list reads .items.*.id\ns.list reads .\n"},
		"select": {`{"steps":[{"fn":"s.list","select":"$result.items[0]"}],"return":"$0.owner"}`,
			"s.list /steps/0:\ns.list reads .items.*\ns.list reads .items.*.owner\n"},
		"inline": {`{"steps":[{"s.list":{}},{"args":{"l":"$0"},"chain":{"steps":[{"s.get":{"itemId":"$input.l.next"}}]}}],"return":"$1.next"}`,
			"s.get /steps/1/chain/steps/0: itemId=made lang=literal\ns.get reads .next\ns.list /steps/0:\ns.list reads .\n"},
		"a saved chain": {`{"steps":[{"chain.inner":{"id":1}}],"return":"$0.name"}`,
			"s.get /steps/0/chain/steps/0: itemId=made view=literal lang=literal\ns.get reads .items.*.owner\ns.get reads .items.*.owner.name\n"},
		"undo": {`{"steps":[{"fn":"s.list","undo":{"fn":"s.undo","args":{"id":"$result.next"}}}]}`,
			"s.list /steps/0:\ns.list reads .next\ns.undo /steps/0/undo: id=made\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := engine.Run(t.Context(), []byte(test.chain), &chain.Caller{Override: chain.Override{Check: true}})
			if !answer.OK {
				t.Fatalf("%s", answer.JSON)
			}
			if got := usesText(answer.Checked.Uses); got != test.want {
				t.Errorf("%s uses\n%swant\n%s", test.chain, got, test.want)
			}
		})
	}
}
