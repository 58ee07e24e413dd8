package steps

import (
	"context"
	"testing"
)

var benchArgs = []byte(`{"pattern":"func main","path":"cmd","limit":50,"mode":"files","labels":["a","b"],"who":{"id":7}}`)

const grepSchema = `{"type":"object","properties":{"pattern":{"type":"string","minLength":1},"path":{"type":"string","default":"."},
	"limit":{"type":"integer","minimum":1,"maximum":1000,"default":100},"mode":{"enum":["lines","files","counts"]},
	"labels":{"type":"array","items":{"type":"string"},"maxItems":2,"uniqueItems":true},
	"who":{"anyOf":[{"type":"string","pattern":"^@"},{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"],
	"additionalProperties":false}]},
	"port":{"oneOf":[{"type":"integer"},{"type":"null"}]},"kind":{"oneOf":[{"const":"a"},{"type":"string","maxLength":3}]}},
	"required":["pattern"],"dependentRequired":{"mode":["path"]},"additionalProperties":false}`

// BenchmarkCall measures the cost of the guard around a function that does nothing; the baseline is that function.
func BenchmarkCall(b *testing.B) {
	noop := func(context.Context, []byte) ([]byte, error) { return []byte("1"), nil }
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	run := func(name string, ctx context.Context, call Call, args []byte) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if result, err := call(ctx, args); err != nil || len(result) != 1 {
					b.Fatalf("got %s, %v; want one byte", result, err)
				}
			}
		})
	}
	plain := calling(b, "", nil, noop)
	run("bare", ctx, noop, []byte("{}"))
	run("in place", context.Background(), plain.Call, []byte("{}"))
	run("watched", ctx, plain.Call, []byte("{}"))
	run("watched, with a schema", ctx, calling(b, grepSchema, nil, noop).Call, benchArgs)
}

func BenchmarkRegister(b *testing.B) {
	fn := Function{Spec: Spec{Name: "a.b", Input: []byte(grepSchema)}, Call: echo}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := NewRegistry([]Function{fn}, nil); err != nil {
			b.Fatal(err)
		}
	}
}
