package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// listingSchema is the output schema of a function as real ones are: closed, with objects in arrays.
const listingSchema = `{"type":"object","additionalProperties":false,"required":["count","files"],"properties":{"count":{"type":"integer"},` +
	`"files":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["path","size"],"properties":{` +
	`"path":{"type":"string"},"size":{"type":"integer"},"modified":{"type":"string"},"owner":{"anyOf":[{"$ref":"#/$defs/owner"},{"type":"null"}]}}}},` +
	`"next":{"type":["string","null"]},"truncated":{"type":"boolean"}},` +
	`"$defs":{"owner":{"type":"object","additionalProperties":false,"properties":{"id":{"type":"string"},"name":{"type":"string"}}}}}`

// hundredSteps is a chain of a hundred steps that refer to each other in args, when and select, and a return of all of them.
func hundredSteps() []byte {
	var b, ret bytes.Buffer
	b.WriteString(`{"steps":[{"fn":"bench.list","args":{"path":"."}}`)
	for i := range 99 {
		at := fmt.Sprintf("$%d.files[0]", i)
		if i%2 == 1 {
			at = fmt.Sprintf("$%d", i)
		}
		fmt.Fprintf(&b, `,{"fn":"bench.list","when":"%s.size > %d","args":{"path":"%s.path","owner":"%s.owner?.name"}`, at, i, at, at)
		if i%2 == 0 {
			b.WriteString(`,"select":"$result.files[0]"`)
		}
		b.WriteString(`}`)
		fmt.Fprintf(&ret, `,"%s.path"`, at)
	}
	b.WriteString(`],"return":["$0.count"` + ret.String() + `]}`)
	return b.Bytes()
}

// BenchmarkCheck compiles a chain of a hundred steps. In the baseline, nothing is known of the results of functions. The other arms check
// references against an output schema, or against the same schema as the shape of earlier results.
func BenchmarkCheck(b *testing.B) {
	request := hundredSteps()
	for _, arm := range []struct{ name, output, seen string }{
		{name: "baseline=without-outputs"}, {name: "with-outputs", output: listingSchema}, {name: "with-seen-shapes", seen: listingSchema},
	} {
		b.Run(arm.name, func(b *testing.B) {
			b.ReportAllocs()
			registry, err := steps.NewRegistry([]steps.Function{{
				Spec: steps.Spec{Name: "bench.list", Description: "Lists.", Effect: steps.Read, EffectDeclared: true, Output: json.RawMessage(arm.output),
					Input: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"owner":{"type":["string","null"]}},"additionalProperties":false}`)},
				Call: func(context.Context, []byte) ([]byte, error) { return []byte(`{"count":0,"files":[]}`), nil },
			}}, nil)
			if err != nil {
				b.Fatal(err)
			}
			if arm.seen != "" {
				seen := &steps.ResultShape{Schema: json.RawMessage(arm.seen), Rare: func([]schema.Element) bool { return false }}
				registry = registry.Learn(func(_ *steps.Spec, call steps.Call) (steps.Call, func() *steps.ResultShape) {
					return call, func() *steps.ResultShape { return seen }
				})
			}
			engine, err := chain.New(&chain.Options{Functions: registry})
			if err != nil {
				b.Fatal(err)
			}
			caller := &chain.Caller{Override: chain.Override{Check: true, Trace: "none"}}
			for b.Loop() {
				if answer := engine.Run(context.Background(), request, caller); !answer.OK {
					b.Fatalf("got %s, want ok", answer.JSON)
				}
			}
		})
	}
}
