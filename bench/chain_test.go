package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// noop returns a function that only returns a fixed result. If schema is not empty, its arguments are validated against it.
func noop(schema string) steps.Function {
	return steps.Function{
		Spec: steps.Spec{Name: "bench.noop", Description: "Does nothing.", Input: json.RawMessage(schema), Effect: steps.Read, EffectDeclared: true},
		Call: func(context.Context, []byte) ([]byte, error) { return []byte(`{"id":"a-1","value":7}`), nil },
	}
}

const noopSchema = `{"type":"object","properties":{"id":{"type":"string"},"value":{"type":"integer"}},"additionalProperties":false}`

func newNoopEngine(b testing.TB, schema string) *chain.Engine {
	b.Helper()
	registry, err := steps.NewRegistry([]steps.Function{noop(schema)}, nil)
	if err != nil {
		b.Fatal(err)
	}
	engine, err := chain.New(&chain.Options{Functions: registry})
	if err != nil {
		b.Fatal(err)
	}
	return engine
}

// tenSteps returns a chain of ten steps, each of which refers to the one before. extra is put in front of "steps", such as `"lite":true,`.
func tenSteps(extra string) []byte {
	var b bytes.Buffer
	b.WriteString(`{` + extra + `"steps":[{"fn":"bench.noop","args":{"id":"x","value":1}}`)
	for i := range 9 {
		fmt.Fprintf(&b, `,{"fn":"bench.noop","args":{"id":"$%d.id","value":"$%d.value"}}`, i, i)
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

// BenchmarkChain runs a chain of ten no-op steps with references in process. The baseline calls the function ten times.
// Targets: 60 µs and 400 allocations without schemas, 180 µs with schemas; compiling alone takes 30 µs without schemas.
func BenchmarkChain(b *testing.B) {
	b.Run("baseline=ten-calls", func(b *testing.B) {
		b.ReportAllocs()
		f, args := noop(""), []byte(`{"id":"x","value":1}`)
		for b.Loop() {
			for range 10 {
				if result, err := f.Call(context.Background(), args); err != nil || len(result) != 22 {
					b.Fatalf("got %s, %v, want 22 bytes", result, err)
				}
			}
		}
	})
	for _, variant := range []struct{ name, schema, extra string }{
		{"without-schema", "", ""}, {"with-schema", noopSchema, ""}, {"without-schema-lite", "", `"lite":true,`},
	} {
		b.Run(variant.name, func(b *testing.B) {
			b.ReportAllocs()
			engine, request := newNoopEngine(b, variant.schema), tenSteps(variant.extra)
			var answer *chain.Answer
			for b.Loop() {
				if answer = engine.Run(context.Background(), request, nil); !answer.OK {
					b.Fatalf("got %s, want ok", answer.JSON)
				}
			}
			isLite := variant.extra != ""
			if isLite && string(answer.JSON) != `{"id":"a-1","value":7}` {
				b.Fatalf("got %s, want only the result of the last step", answer.JSON)
			}
			if calls := gjson.GetBytes(answer.JSON, "usage.calls").Int(); !isLite && calls != 10 {
				b.Fatalf("got %d calls, want 10: %s", calls, answer.JSON)
			}
		})
	}
	for _, variant := range []struct{ name, schema string }{{"compile-without-schema", ""}, {"compile-with-schema", noopSchema}} {
		b.Run(variant.name, func(b *testing.B) {
			b.ReportAllocs()
			engine, request := newNoopEngine(b, variant.schema), tenSteps("")
			caller := &chain.Caller{Override: chain.Override{Check: true, Trace: "none"}}
			for b.Loop() {
				if answer := engine.Run(context.Background(), request, caller); !answer.OK {
					b.Fatalf("got %s, want ok", answer.JSON)
				}
			}
		})
	}
}

// TestChainAllocations enforces the machine-independent target: 400 allocations for a chain of ten steps with
// references, compiled and run.
func TestChainAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	engine, request := newNoopEngine(t, ""), tenSteps("")
	allocations := testing.AllocsPerRun(200, func() {
		if answer := engine.Run(context.Background(), request, nil); !answer.OK {
			t.Fatalf("got %s, want ok", answer.JSON)
		}
	})
	t.Logf("%.0f allocations", allocations)
	if allocations > 400 {
		t.Errorf("%.0f allocations, want at most 400", allocations)
	}
}

// BenchmarkForEach runs a no-op function for each of 1,000 and 10,000 elements; ns/element is the time for one element. Target: the time
// grows linearly, with 6 µs for each element without a schema and 16 µs with one.
func BenchmarkForEach(b *testing.B) {
	for _, elements := range []int{1000, 10_000} {
		for _, variant := range []struct{ name, schema string }{{"without-schema", ""}, {"with-schema", noopSchema}} {
			b.Run(fmt.Sprintf("%s/elements=%d", variant.name, elements), func(b *testing.B) {
				engine := newNoopEngine(b, variant.schema)
				request := fmt.Appendf(nil, `{"lite":true,"steps":[{"fn":"bench.noop","forEach":"1..%d","args":{"id":"x","value":"$item"}}],"return":"$0[-1].value"}`, elements)
				for b.Loop() {
					if answer := engine.Run(context.Background(), request, nil); string(answer.JSON) != "7" {
						b.Fatalf("got %s, want 7", answer.JSON)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(elements), "ns/element")
			})
		}
	}
}

// BenchmarkReference resolves a reference into a result of 1 MB; the baseline is gjson on the same path. Target: 1.5
// times the baseline at most.
func BenchmarkReference(b *testing.B) {
	document := []byte(`{"total":10000,"items":[`)
	for i := range 10_000 {
		document = fmt.Appendf(document, `{"id":%d,"name":"item %d","tags":["a","b"],"note":"%052d"},`, i, i, i)
	}
	document = append(document[:len(document)-1], "]}"...)
	for _, element := range []int{5000, 9999} {
		want := fmt.Sprintf(`"item %d"`, element)
		b.Run(fmt.Sprintf("baseline=gjson/element=%d", element), func(b *testing.B) {
			path := fmt.Sprintf("items.%d.name", element)
			for b.Loop() {
				if raw := gjson.GetBytes(document, path).Raw; raw != want {
					b.Fatalf("got %s, want %s", raw, want)
				}
			}
		})
		b.Run(fmt.Sprintf("refs/element=%d", element), func(b *testing.B) {
			template, faults := refs.CompileTemplate(fmt.Appendf(nil, `"$0.items[%d].name"`, element), refs.CompileScope{Step: 1, Steps: 2})
			if len(faults) > 0 {
				b.Fatal(faults)
			}
			scope := &refs.Scope{Steps: []refs.StepResult{{Raw: document, Status: "ok"}}}
			for b.Loop() {
				raw, err := template.Resolve(context.Background(), nil, scope)
				if err != nil || string(raw) != want {
					b.Fatalf("got %s, %v, want %s", raw, err, want)
				}
			}
		})
	}
}
