package refs

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/expr-lang/expr"
)

// BenchmarkExpression: compiling without the cache, running, one path in 1 MB, a filter over 1 MB; the baselines are
// expr-lang alone, on decoded values.
func BenchmarkExpression(b *testing.B) {
	ctx := context.Background()
	const source = `$0.total > 3 && $0.name == "abc"`
	b.Run("compile/refs", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := newProgram(source); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("compile/expr", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := expr.Compile(source, expr.AllowUndefinedVariables()); err != nil {
				b.Fatal(err)
			}
		}
	})
	run := func(name, source, doc, want string) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			x := compileExpression(b, source)
			s := scopeOf(doc)
			for b.Loop() {
				out, err := x.Eval(ctx, s)
				if err != nil || want != "" && string(out) != want {
					b.Fatalf("Eval gives %s, %v; want %s", out, err, want)
				}
			}
		})
	}
	doc := string(megabyte(b))
	run("run/refs", source, `{"total":4,"name":"abc"}`, "true")
	b.Run("run/expr", func(b *testing.B) {
		b.ReportAllocs()
		p, err := expr.Compile(source, expr.AllowUndefinedVariables())
		must(b, err)
		env := map[string]any{"$0": map[string]any{"total": 4, "name": "abc"}}
		for b.Loop() {
			if out, err := expr.Run(p, env); err != nil || out != true {
				b.Fatalf("got %v, %v; want true", out, err)
			}
		}
	})
	run("path-in-1MB/refs", `$0.items[500].card.size == 0`, doc, "true")
	b.Run("path-in-1MB/decode", func(b *testing.B) {
		b.ReportAllocs()
		p, err := expr.Compile(`$0.items[500].card.size == 0`, expr.AllowUndefinedVariables())
		must(b, err)
		for b.Loop() {
			var v any
			must(b, json.Unmarshal([]byte(doc), &v))
			if out, err := expr.Run(p, map[string]any{"$0": v}); err != nil || out != true {
				b.Fatalf("got %v, %v; want true", out, err)
			}
		}
	})
	run("filter-1MB/refs", `len(filter($0.items, .card.size > 48))`, doc, "160")
	b.Run("filter-1MB/decode", func(b *testing.B) {
		b.ReportAllocs()
		p, err := expr.Compile(`len(filter($0.items, .card.size > 48))`, expr.AllowUndefinedVariables())
		must(b, err)
		for b.Loop() {
			var v any
			must(b, json.Unmarshal([]byte(doc), &v))
			if out, err := expr.Run(p, map[string]any{"$0": v}); err != nil || out != 160 {
				b.Fatalf("got %v, %v; want 160", out, err)
			}
		}
	})
}
