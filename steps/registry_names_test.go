package steps

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

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
				b.Fatal("an unknown name resolves")
			}
		}
	})
	b.Run("index", func(b *testing.B) {
		for b.Loop() {
			if x := newIndex(names, nil); len(x.bySpelling()) < len(names) {
				b.Fatalf("%d spellings, want at least %d", len(x.bySpelling()), len(names))
			}
		}
	})
	b.Run("view", func(b *testing.B) {
		for b.Loop() {
			if v := r.View(func(s *Spec) bool { return s.Source() == "source1" }); v.Len() != 200 {
				b.Fatalf("%d functions, want 200", v.Len())
			}
		}
	})
}

func TestRegistryRejects(t *testing.T) {
	t.Parallel()
	tests := map[string][]Function{
		"twice":         functions("a.b", "c.d", "a.b"),
		"no name":       functions(""),
		"no letters":    functions("._-"),
		"blank":         functions("a. b"),
		"line break":    functions("a.b\n"),
		"control":       functions("a.\x01b"),
		"bad UTF-8":     functions("a.\xff"),
		"too long":      functions(strings.Repeat("a", maxName+1)),
		"no call":       {{Spec: Spec{Name: "a.b"}}},
		"unknown heavy": {{Spec: Spec{Name: "a.b", Heavy: "often"}, Call: echo}},
	}
	for name, fns := range tests {
		r, err := NewRegistry(fns, nil)
		if fault.CodeOf(err) != fault.BadRequest || r != nil {
			t.Errorf("NewRegistry of %s: %v, %v, want bad_request", name, r, err)
		}
	}
	if _, err := registry(t, functions("a.b")...).With(functions("a.b")...); fault.CodeOf(err) != fault.BadRequest {
		t.Errorf("With of an existing name: got %v, want bad_request", err)
	}
}
