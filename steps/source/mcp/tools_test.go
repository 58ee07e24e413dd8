package mcp

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

func TestSpecs(t *testing.T) {
	t.Parallel()
	s := openSource(t, child(t, "good"))
	await(t, s, steps.StateReady)
	for name, want := range map[string]steps.Spec{
		"shelf.get":    {Effect: steps.Read, EffectDeclared: true},
		"shelf.put":    {Effect: steps.Write, EffectDeclared: true, Idempotent: true}, // its server says readOnlyHint: false
		"shelf.remove": {Effect: steps.Destroy, EffectDeclared: true},
		"shelf.wait":   {Effect: steps.Write},
	} {
		got := function(t, s, name).Spec
		if got.Effect != want.Effect || got.EffectDeclared != want.EffectDeclared || got.Idempotent != want.Idempotent {
			t.Errorf("%s: %v declared %v idempotent %v", name, got.Effect, got.EffectDeclared, got.Idempotent)
		}
	}
}

// TestHints: the effect is declared by readOnlyHint or destructiveHint, whatever they say, and by nothing else.
func TestHints(t *testing.T) {
	t.Parallel()
	for annotations, want := range map[string]steps.Spec{
		``:                          {},
		`{"title":"x"}`:             {},
		`{"idempotentHint":true}`:   {Idempotent: true},
		`{"idempotentHint":false}`:  {},
		`{"openWorldHint":true}`:    {},
		`{"readOnlyHint":"yes"}`:    {},
		`{"readOnlyHint":false}`:    {EffectDeclared: true},
		`{"readOnlyHint":true}`:     {Effect: steps.Read, EffectDeclared: true},
		`{"destructiveHint":false}`: {EffectDeclared: true},
		`{"destructiveHint":true}`:  {Effect: steps.Destroy, EffectDeclared: true},
		`{"readOnlyHint":true,"destructiveHint":true,"idempotentHint":true}`: {Effect: steps.Read, EffectDeclared: true, Idempotent: true},
	} {
		effect, idempotent, declared := hints(gjson.Parse(annotations))
		if effect != want.Effect || idempotent != want.Idempotent || declared != want.EffectDeclared {
			t.Errorf("%s: %v declared %t idempotent %t", annotations, effect, declared, idempotent)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	var warned []string
	s := newSource(Options{Name: "s", Warn: func(f *fault.Error) { warned = append(warned, f.Message) }})
	names := func(tools ...string) (functions []string) {
		var list []tool
		for _, name := range tools {
			list = append(list, tool{name: name})
		}
		for _, named := range s.assignNames(list) {
			functions = append(functions, named.function)
		}
		return functions
	}
	got := names("a", "a.b", "x/y", "a b", "a_b", "ä", "..", "p/q", "p.q", strings.Repeat("n", 300))
	want := []string{"s.a", "s.a.b", "s.x.y", "s.a_b_c8687a08", "s.a_b"}
	if !slices.Equal(got[:5], want) || got[8] != "s.p.q" || !strings.HasPrefix(got[7], "s.p.q_") {
		t.Errorf("names %q, want %q", got, want)
	}
	registry := []steps.Function{}
	for _, name := range got {
		registry = append(registry, steps.Function{Spec: steps.Spec{Name: name}, Call: func(context.Context, []byte) ([]byte, error) { return nil, nil }})
	}
	if _, err := steps.NewRegistry(registry, nil); err != nil {
		t.Error(err)
	}
	if again := names("ä", "a b"); again[0] != got[5] || again[1] != got[3] {
		t.Errorf("other names in another list: %q", again)
	}
}
