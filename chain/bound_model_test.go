package chain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// boundedFunctions are functions whose schemas bound what they give, and one that declares nothing.
func boundedFunctions() []steps.Function {
	var tries atomic.Int64
	function := func(name, output string, effect steps.Effect, call func(n int) any) steps.Function {
		spec := steps.Spec{Name: name, Effect: effect, EffectDeclared: true, Output: json.RawMessage(output)}
		return steps.Function{Spec: spec, Call: func(_ context.Context, args []byte) ([]byte, error) {
			if value := call(int(gjson.GetBytes(args, "n").Int())); value != nil {
				return json.Marshal(value)
			}
			return nil, fault.New(fault.Unavailable, "not yet")
		}}
	}
	return []steps.Function{
		function("give.flag", `{"type":"boolean"}`, steps.Read, func(n int) any { return n%2 == 0 }),
		function("give.text", `{"type":"string","maxLength":8}`, steps.Read, func(n int) any { return strings.Repeat(`"`, n%9) }),
		function("give.list", `{"type":"array","minItems":1,"maxItems":4,"items":{"type":"integer"}}`, steps.Read,
			func(n int) any { return []int{n, 2, 3, -1 << 60}[:1+n%4] }),
		function("give.row", `{"type":"object","properties":{"id":{"type":"integer"},"tags":{"type":"array","maxItems":3,"items":{"enum":["a","bc"]}}},`+
			`"required":["id","tags"],"additionalProperties":false}`, steps.Read,
			func(n int) any { return map[string]any{"id": n, "tags": []string{"a", "bc", "a"}[:n%4]} }),
		function("give.any", ``, steps.Read, func(n int) any { return map[string]int{"n": n} }),
		function("give.late", `{"type":"boolean"}`, steps.Read, func(n int) any {
			if n > 3 && tries.Add(1)%2 == 1 {
				return nil
			}
			return true
		}),
		function("give.slow", `{"type":"boolean"}`, steps.Read, func(int) any { return tries.Add(1)%3 == 0 }),
		function("give.pages", `{"type":"array","maxItems":2,"prefixItems":[{"type":"string"}],"items":{"type":"boolean"}}`, steps.Read,
			func(n int) any { return []any{strings.Repeat("long", n), n%2 == 0}[:n%3] }),
		function("put.flag", `{"const":true}`, steps.Write, func(int) any { return true }),
	}
}

// boundedChain draws chains over boundedFunctions.
type boundedChain struct {
	t     *rapid.T
	lists []int // the steps of the level that are arrays
	rows  []int // those that are a row
}

func (d *boundedChain) chance(n int, label string) bool {
	return rapid.IntRange(0, n-1).Draw(d.t, label) == 0
}

// steps draws the steps of a level, and its return.
func (d *boundedChain) level(depth int) string {
	outer := *d
	defer func() { *d = outer }()
	d.lists, d.rows = nil, nil
	n := rapid.IntRange(1, 4).Draw(d.t, "steps")
	var steps []string
	for i := range n {
		steps = append(steps, d.step(i, depth))
	}
	returned := rapid.SampledFrom([]string{"", `,"return":{"a":"$0","b":["$prev"]}`, `,"return":"a ${$0} of $$"`, `,"return":7`}).Draw(d.t, "return")
	if len(d.rows) > 0 && d.chance(2, "row") {
		returned = fmt.Sprintf(`,"return":["$%d.tags","$%[1]d.id"]`, d.rows[0])
	}
	return fmt.Sprintf(`"steps":[%s]%s`, strings.Join(steps, ","), returned)
}

func (d *boundedChain) step(i, depth int) string {
	name := rapid.SampledFrom([]string{"give.flag", "give.text", "give.list", "give.row", "give.any", "give.late", "give.slow", "give.pages", "put.flag"}).Draw(d.t, "fn")
	fields := []string{fmt.Sprintf(`"fn":%q`, name), fmt.Sprintf(`"args":{"n":%d}`, rapid.IntRange(0, 12).Draw(d.t, "n"))}
	isList, isRow := name == "give.list", name == "give.row"
	switch kind := rapid.IntRange(0, 8).Draw(d.t, "kind"); {
	case kind == 0 && depth > 0:
		fields, isList, isRow = []string{`"args":{"xs":[1,2]}`, fmt.Sprintf(`"chain":{%s}`, d.level(depth-1))}, false, false
	case kind == 1:
		fields, isList, isRow = []string{`"expr":"len(string(1..20))"`}, false, false
	case kind == 2 && name != "put.flag":
		fields = append(fields, `"retry":{"max":2}`)
	case kind == 3 && name == "give.pages":
		fields = append(fields, rapid.SampledFrom([]string{`"repeat":{"until":"true","max":2,"collect":"$result"}`,
			`"repeat":{"until":"true","max":2,"collect":"$result"},"select":"len($result)"`, `"select":"$result[0]"`}).Draw(d.t, "pages"))
	case kind == 3 && name != "put.flag":
		fields = append(fields, `"repeat":{"until":"$result != false","max":4}`)
	case kind == 6 && depth > 0:
		fields, isList, isRow = []string{`"args":{"xs":[1,2]}`, fmt.Sprintf(`"repeat":{"until":"$result != false","max":3},"chain":{%s}`,
			d.level(depth-1))}, false, false
	case kind == 4:
		fields = append(fields, `"orElse":"none"`)
		isList, isRow = false, false
	case kind == 5 && name == "give.row":
		fields, isRow = append(fields, rapid.SampledFrom([]string{`"select":"$result.id"`, `"select":"$result.tags"`, `"select":"len($result.tags)"`, `"select":"$result.tags[0]"`}).
			Draw(d.t, "select")), false
	}
	if d.chance(6, "when") {
		fields = append(fields, rapid.SampledFrom([]string{`"when":true`, `"when":"1 > 2"`}).Draw(d.t, "met"))
		isList, isRow = false, false
	}
	if d.chance(4, "each") {
		lists := []string{"[]", "[1,2,3]", "1..6", "$input.xs"}
		for _, n := range d.lists {
			lists = append(lists, fmt.Sprintf("$%d", n))
		}
		for _, n := range d.rows {
			lists = append(lists, fmt.Sprintf("$%d.tags", n))
		}
		fields, isList, isRow = append(fields, fmt.Sprintf(`"forEach":%q`, rapid.SampledFrom(lists).Draw(d.t, "list"))), true, false
	}
	if isList {
		d.lists = append(d.lists, i)
	}
	if isRow {
		d.rows = append(d.rows, i)
	}
	return "{" + strings.Join(fields, ",") + "}"
}

// TestBoundHolds: what a run takes is between the ends that its dry run has told: calls, bytes, tokens and time. A chain that asks for no
// more bytes than the high end is not refused, nor cut off.
func TestBoundHolds(t *testing.T) {
	t.Parallel()
	all, counter := t, newCounter(t, 0)
	rapid.Check(t, func(t *rapid.T) {
		d := &boundedChain{t: t}
		request := fmt.Sprintf(`"lite":%t,"input":{"xs":[1,2,3]},`, rapid.Bool().Draw(t, "lite")) + d.level(2)
		run := func(o chain.Options, fields string) *chain.Answer {
			return engineOf(all, boundedFunctions(), o, false).Run(context.Background(), []byte("{"+fields+request+"}"), nil)
		}
		planned, a := run(chain.Options{}, `"dryRun":true,`), run(chain.Options{}, "")
		if !planned.OK {
			t.Fatalf("%s\ndoes not compile: %s", request, planned.JSON)
		}
		b := planned.Plan.Bound
		calls, tokens := gjson.GetBytes(a.JSON, "usage.calls"), int64(counter.Count(a.JSON, -1))
		within := func(what string, i chain.Interval, n int64) {
			if a.OK && n < i.Low || i.High != chain.Unknown && n > i.High || i.Likely != chain.Unknown && (i.Likely < i.Low) {
				t.Fatalf("%s\n%d %s, want them within %+v: %s", request, n, what, i, a.JSON)
			}
		}
		if calls.Exists() {
			within("calls", b.Calls, calls.Int())
			within("ms", b.Millis, gjson.GetBytes(a.JSON, "usage.ms").Int())
		}
		if !a.OK {
			return
		}
		within("tokens", b.Tokens, tokens)
		if b.Bytes.Low > 1 {
			if cut := run(chain.Options{MaxChainBytes: b.Bytes.Low - 1}, ""); cut.OK {
				t.Fatalf("%s\nholds fewer bytes than its low end, %d", request, b.Bytes.Low)
			}
		}
		if high := max(b.Bytes.High, 1); b.Bytes.High != chain.Unknown {
			if kept := run(chain.Options{}, fmt.Sprintf(`"budget":{"maxBytes":%d},`, high)); !kept.OK && strings.Contains(string(kept.JSON), "budget.maxBytes") {
				t.Fatalf("%s\nholds more bytes than its high end, %d: %s", request, b.Bytes.High, kept.JSON)
			}
		}
	})
}
