package schema

import (
	"slices"
	"strings"
	"testing"
)

func TestUndeclared(t *testing.T) {
	t.Parallel()
	const open = `{"type":"object","properties":{"count":{"type":"integer"},
		"items":{"type":"array","items":{"allOf":[{"$ref":"#/$defs/named"},{"type":"object","properties":{"price":{"type":"number"}}}]}},
		"either":{"oneOf":[{"$ref":"#/$defs/named"},{"type":"object","properties":{"size":{"type":"integer"}}},{"type":"string"}]},
		"labels":{"type":"object","properties":{"team":{"type":"string"}},"additionalProperties":{"type":"string"}},
		"extra":{"type":"object","properties":{"team":{"type":"string"}},"patternProperties":{"^x-":{}}},
		"free":{"type":"object"},"cases":{"properties":{"status":{}},"if":{"required":["status"]},"then":{"properties":{"statuses":{}}}},
		"it has a":{"properties":{"it has x":{}}},"next":{"$ref":"#"}},
		"$defs":{"named":{"type":"object","properties":{"name":{"type":"string"},"owner":{"type":"object",
		"properties":{"login":{"type":"string"}}}}}}}`
	e, warnings := entry("", open)
	if len(warnings) > 0 {
		t.Fatal(warnings)
	}
	for text, nearest := range map[string]string{
		"": "", "count": "", "cuont": "count", "items.0.nme": "name", "items.[*].prise": "price", "items.[*].price": "",
		"items.0.owner.loginn": "login",
		"either.naem":          "name", "either.sise": "size", "either.0": "", "labels.taem": "", "extra.taem": "", "free.x": "",
		"cases.statuss":     "",
		"it has a.it has y": "it has x", "next.next.cuont": "count",
		"whatever": "", "items.size": "", "items.[*].?prise": "price", "count.x": "",
	} {
		_, _ = e.Produces(path(text))
		f := e.Undeclared(path(text))
		if got := f != nil; got != (nearest != "") || got && !slices.Contains(f.Nearest, nearest) {
			t.Errorf("%s: %+v, want %q", text, f, nearest)
		}
	}
	if f := e.Undeclared(path("it has a.it has y")); !strings.Contains(f.Message,
		`no member "it has y": it has a in its result declares it has x`) {
		t.Error(f)
	}
	e, _ = entry("", `{"type":"object","properties":{"count":{"type":"integer"}},"additionalProperties":false}`)
	if f := e.Undeclared(path("cuont")); f != nil { // it is a fault, not a doubt
		t.Errorf("closed: %v", f)
	}
}
