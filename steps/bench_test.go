package steps

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

var benchArgs = []byte(`{"pattern":"func main","path":"cmd","limit":50,"mode":"files","labels":["a","b"],"who":{"id":7}}`)

// BenchmarkValidate checks a small arguments object; the baseline is the validator alone, with its own decoder.
func BenchmarkValidate(b *testing.B) {
	e, _ := entry(b, grepSchema, "")
	b.Run("library", func(b *testing.B) {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(grepSchema))
		if err != nil {
			b.Fatal(err)
		}
		compiler := jsonschema.NewCompiler()
		if err := compiler.AddResource(schemaURL, doc); err != nil {
			b.Fatal(err)
		}
		schema := compiler.MustCompile(schemaURL)
		b.ReportAllocs()
		for b.Loop() {
			value, err := jsonschema.UnmarshalJSON(bytes.NewReader(benchArgs))
			if err != nil || schema.Validate(value) != nil {
				b.Fatal("the arguments do not fit")
			}
		}
	})
	b.Run("accept", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, f := e.accept(b.Context(), benchArgs); f != nil {
				b.Fatal(f)
			}
		}
	})
	b.Run("misfit", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if faults := e.Check([]byte(`{"patern":"x","limit":0}`), nil); len(faults) != 2 {
				b.Fatal(faults)
			}
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	e, _ := entry(b, grepSchema, "")
	args := []byte(`{"pattern":"$0.name","path":"a/${$1.dir}","limit":"$0.n","labels":["a","$2"]}`)
	holes := []Hole{{At: "/pattern"}, {At: "/path", Types: []string{"string"}}, {At: "/limit", Types: []string{"integer"}}, {At: "/labels/1"}}
	b.ReportAllocs()
	for b.Loop() {
		if faults := e.Check(args, holes); len(faults) != 0 {
			b.Fatal(faults)
		}
	}
}

// BenchmarkCall is what the guard costs around a function that does nothing; the baseline is that function.
func BenchmarkCall(b *testing.B) {
	noop := func(context.Context, []byte) ([]byte, error) { return []byte("1"), nil }
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	run := func(name string, ctx context.Context, call Call, args []byte) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if result, err := call(ctx, args); err != nil || len(result) != 1 {
					b.Fatal(err)
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

func BenchmarkResolve(b *testing.B) {
	var names []string
	for i := range 10_000 {
		names = append(names, fmt.Sprintf("source%d.resource_%d.action%d", i%50, i, i%7))
	}
	r, err := NewRegistry(functions(names...), nil)
	if err != nil {
		b.Fatal(err)
	}
	for what, name := range map[string]string{"exact": names[4321], "folded": strings.ToUpper(names[4321]), "suffix": "resource4321Action2"} {
		b.Run(what, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if e, err := r.Resolve(name); err != nil || e.spec.Name != names[4321] {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("unknown", func(b *testing.B) {
		for b.Loop() {
			if _, err := r.Resolve("source1.resurce_4321.action"); err == nil {
				b.Fatal("found")
			}
		}
	})
	b.Run("index", func(b *testing.B) {
		for b.Loop() {
			if x := newIndex(names); len(x.spell()) < len(names) {
				b.Fatal("too few spellings")
			}
		}
	})
	b.Run("view", func(b *testing.B) {
		for b.Loop() {
			if v := r.View(func(s *Spec) bool { return s.Source() == "source1" }); v.Len() != 200 {
				b.Fatal(v.Len())
			}
		}
	})
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

func BenchmarkSignature(b *testing.B) {
	spec := &Spec{Name: "fs.grep", Input: []byte(grepSchema)}
	b.ReportAllocs()
	for b.Loop() {
		if text := Signature(spec.Name, spec.Input, ": ", nil); !strings.HasPrefix(text, "fs.grep(pattern: string, ") {
			b.Fatal(text)
		}
	}
}

// BenchmarkCompact takes 1 MB; the baseline is the standard library's.
func BenchmarkCompact(b *testing.B) {
	tight := []byte("[" + strings.TrimSuffix(strings.Repeat(`{"id":12345,"name":"some text \"here\"","on":true},`, 20_000), ",") + "]")
	var loose bytes.Buffer
	if err := json.Indent(&loose, tight, "", "  "); err != nil {
		b.Fatal(err)
	}
	for name, value := range map[string][]byte{"tight": tight, "loose": loose.Bytes()} {
		b.Run("encoding json "+name, func(b *testing.B) {
			b.SetBytes(int64(len(value)))
			for b.Loop() {
				var out bytes.Buffer
				if err := json.Compact(&out, value); err != nil || out.Len() != len(tight) {
					b.Fatal(err)
				}
			}
		})
		b.Run("onecall "+name, func(b *testing.B) {
			b.SetBytes(int64(len(value)))
			for b.Loop() {
				if out, err := Compact(value); err != nil || len(out) != len(tight) {
					b.Fatal(err)
				}
			}
		})
	}
}
