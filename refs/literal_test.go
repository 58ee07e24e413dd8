package refs_test

import (
	"context"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/refs"
)

// resolved returns what a value resolves to as a template of a first step.
func resolved(value []byte) (string, bool) {
	t, faults := refs.CompileTemplate(value, refs.CompileScope{At: "/steps/0/args", Steps: 1})
	if len(faults) > 0 {
		return faults[0].Error(), false
	}
	out, err := t.Resolve(context.Background(), nil, &refs.Scope{})
	if err != nil {
		return err.Error(), false
	}
	return string(out), true
}

func equalJSON(a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return string(p) == string(q)
}

func TestLiteral(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"$5", "$", "$$", "$$$", "$0.name", "$HOME/bin", "price $5", "a$$b", "${HOME}", "${0.name}", "$${0.name}",
		"$$${0.name}", "a ${0.name", "a $$${$0.x}",
		"see $0.name", "${item}", "$item", "$input.x", "$prev", "${prev.x}", "x $prev.y", "${$", "${0.", "${0[", "$$5 ${1.a} $", "${12.x}",
		"$\u00e4{0.a}", "${${$", "${${0.", "$${$${0.a}}", "${0.${1.}"} {
		value, _ := json.Marshal(map[string]any{"a": []any{text, 1, nil}, text: "plain"})
		if got, ok := resolved(refs.Literal(value)); !ok || !equalJSON(got, string(value)) {
			t.Errorf("%q: Literal returns %s, which resolves to %s; want %s", text, refs.Literal(value), got, value)
		}
	}
	for _, text := range allTexts("${0.a", 6) {
		value, _ := json.Marshal([]string{text})
		if got, ok := resolved(refs.Literal(value)); !ok || !equalJSON(got, string(value)) {
			t.Errorf("%q: Literal returns %s, which resolves to %s; want %s", text, refs.Literal(value), got, value)
		}
	}
	// gjson drops what follows a lone surrogate.
	if got, want := string(refs.Literal([]byte(`["\ud800\u0041 ${0.a}"]`))), "[\"\ufffdA $${0.a}\"]"; got != want {
		t.Errorf("Literal returns %s, want %s", got, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`(\$|\{|\}|0|1|\.|\[|a|item|prev|input| |\\|"){0,12}`).Draw(t, "text")
		value, _ := json.Marshal([]string{text})
		wrapped := append(append([]byte(`{"a":`), value...), '}')
		if got, ok := resolved(refs.Literal(wrapped)); !ok || !equalJSON(got, string(wrapped)) {
			t.Fatalf("%q: Literal returns %s, which resolves to %s; want %s", text, refs.Literal(wrapped), got, wrapped)
		}
	})
}

// allTexts returns all texts of n of these characters, and of fewer.
func allTexts(characters string, n int) []string {
	all := []string{""}
	for from := 0; n > 0; n-- {
		shorter := all[from:]
		from = len(all)
		for _, text := range shorter {
			for _, c := range characters {
				all = append(all, text+string(c))
			}
		}
	}
	return all
}
