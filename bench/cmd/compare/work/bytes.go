package work

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/steps"
)

// itemBytes is the length of one item of a large result, including its comma.
const itemBytes = 52

// largeResult returns a JSON array of size bytes, or a few less.
func largeResult(size int) []byte {
	b := append(make([]byte, 0, size+itemBytes), '[')
	for i := range max(1, (size-1)/itemBytes) {
		b = fmt.Appendf(b, `{"id":%08d,"name":"item number %08d","ok":true},`, i+10_000_000, i)
	}
	b[len(b)-1] = ']'
	return b
}

// resultOfBytes measures a result of a size in bytes: a chain that passes it on to the next step, a probe of it, and a page. The baseline
// reads it once, to check that it is JSON.
func resultOfBytes(ctx context.Context, size int, s Samples) []arm {
	document := largeResult(size)
	engine, _ := newEngine(0, largeFunction(document), takeFunction())
	token := ""
	probe := func() {
		text := answer(ctx, engine, []byte(`{"lite":true,"steps":[{"fn":"bench.large"}]}`), "")
		if token = gjson.GetBytes(text, "continuation_token").Str; token == "" {
			harness.Fail("no probe: %.300s", text)
		}
	}
	items := gjson.GetBytes(document, "#").Int()
	page := func() {
		// A page has 20 items, so this one is in the middle.
		text := answer(ctx, engine,
			fmt.Appendf(nil, `{"lite":true,"continuation_token":%q,"mode":"paginated","page":%d}`, token, items/40), "")
		if n := gjson.GetBytes(text, "items.#").Int(); n != 20 {
			harness.Fail("a page of %d items", n)
		}
	}
	validate := func() {
		harness.FailIf(!gjson.ValidBytes(document), "the document is no JSON")
	}
	s.add("size-mb", float64(len(document))/megabyte)
	arms := []arm{
		{sample: "bare-ms", run: validate},
		running(ctx, "pass-ms", engine, []byte(`{"lite":true,"steps":[{"fn":"bench.large"},{"fn":"bench.take","args":{"value":"$0"}}]}`),
			fmt.Sprintf(`{"taken":%d}`, len(document))),
		{sample: "probe-ms", run: probe}, {sample: "page-ms", run: page},
	}
	for _, a := range arms { // the first use makes what is made only once, and is not measured
		a.run()
	}
	s.peak("peak-mb")
	return arms
}

func largeFunction(document []byte) steps.Function {
	return steps.Function{
		Spec: steps.Spec{Name: "bench.large", Description: "A large result.", Effect: steps.Read, EffectDeclared: true},
		Call: func(context.Context, []byte) ([]byte, error) { return document, nil },
	}
}

// takeFunction returns a function whose result is the length of its argument in bytes.
func takeFunction() steps.Function {
	return steps.Function{
		Spec: steps.Spec{
			Name: "bench.take", Description: "Takes a value.", Effect: steps.Read, EffectDeclared: true,
			Input: json.RawMessage(`{"type":"object","properties":{"value":{"type":"array"}}}`),
		},
		Call: func(_ context.Context, args []byte) ([]byte, error) {
			return fmt.Appendf(nil, `{"taken":%d}`, len(args)-len(`{"value":}`)), nil
		},
	}
}
