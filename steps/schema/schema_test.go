package schema

import (
	"slices"
	"strings"
	"testing"
)

func TestProperties(t *testing.T) {
	t.Parallel()
	e, _ := entry(`{"$ref":"#/$defs/r","$defs":{"r":{"type":"object","properties":{"b":{},"a":{}},"allOf":[{"properties":{"c":{},"a":{}}},{"$ref":"#/$defs/r"}],
		"oneOf":[{"properties":{"d":{"properties":{"inner":{}}}}}],"if":{"properties":{"condition":{}}},"then":{"properties":{"e":{}}}}}}`, "")
	if got := e.Names(); !slices.Equal(got, []string{"b", "a", "c", "d", "e"}) {
		t.Errorf("got %v, want b a c d e", got)
	}
	if e.Name("d") != "d" || e.Name("inner") != "" || e.Name("x") != "" {
		t.Error("Name does not return the properties of the schema only")
	}
	if e, _ := entry("", ""); e.Names() != nil || e.Name("a") != "" {
		t.Error("a function without a schema has properties")
	}
}

func TestDeepSchema(t *testing.T) {
	t.Parallel()
	e, warnings := entry(strings.Repeat(`{"items":`, 200)+"{}"+strings.Repeat("}", 200), "")
	if faults := e.Check([]byte(`{"a":1}`), nil); len(faults) > 0 || len(warnings) != 1 || !strings.Contains(warnings[0], "deep") {
		t.Errorf("got faults %v, warnings %q, want a warning of the depth only", faults, warnings)
	}
}
