package mcp

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestRepairSchema: schemas that make a client reject the whole tool list are repaired. Others are unchanged.
func TestRepairSchema(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{"type":"object","properties":{"type":{"type":"string"},"items":{"type":"array"}}}`:  `{"type":"object","properties":{"type":{"type":"string"},"items":{"type":"array","items":{}}}}`,
		`{"type":"object","properties":{"a":{"type":["array","null"],"description":"x"}}}`:    `{"type":"object","properties":{"a":{"type":["array","null"],"description":"x","items":{}}}}`,
		`{"type":"object","properties":{"a":{"anyOf":[{"type":"array"},{"type":"string"}]}}}`: `{"type":"object","properties":{"a":{"anyOf":[{"type":"array","items":{}},{"type":"string"}]}}}`,
		`{"type":"object","$defs":{"x":{"type":"array","prefixItems":[{"type":"array"}]}}}`:   `{"type":"object","$defs":{"x":{"type":"array","prefixItems":[{"type":"array","items":{}}],"items":{}}}}`,
		`{"type":"object","properties":{"a":{"default":{"type":"array"},"n":1.50}}}`:          `{"type":"object","properties":{"a":{"default":{"type":"array"},"n":1.50}}}`,
		`{"type":"object","properties":{"default":{"type":"array"}},"$schema":"s"}`:           `{"type":"object","properties":{"default":{"type":"array","items":{}}},"$schema":"s"}`,
		`{"type":"object","properties":{"a":{"$dynamicRef":"#n"}},"$dynamicAnchor":"n"}`:      `{"type":"object","properties":{"a":{}}}`,
		`{"type":"object","properties":{"a":{"type":"array","items":[{"type":"array"}]}}}`:    `{"type":"object","properties":{"a":{"type":"array","items":[{"type":"array","items":{}}]}}}`,
	} {
		if got := string(rootObject(json.RawMessage(schema))); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", schema, got, want)
		}
	}
}

// TestLongDescriptions: descriptions in a schema are never shortened: how to write an argument stands in them.
func TestLongDescriptions(t *testing.T) {
	t.Parallel()
	describing := func(text string) string {
		return `{"type":"object","properties":{"description":{"type":"string","description":"` + text + `","default":"` +
			strings.Repeat("d", 3000) + `"}}}`
	}
	long := strings.Repeat("é", 3000)
	if got, want := string(rootObject(json.RawMessage(describing(long)))), describing(long); got != want {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
}

// TestRootObject: clients see plain objects at the root of schemas, whatever upstreams have there.
func TestRootObject(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		``:                                 `{"type":"object"}`,
		`{"type":"object","x-keep":[1,2]}`: `{"type":"object","x-keep":[1,2]}`,
		`{"properties":{"a":{}}}`:          `{"properties":{"a":{}},"type":"object"}`,
		`true`:                             `{"type":"object"}`,
		`{"type":"object","oneOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"b":{"type":"integer"}}}]}`: `{"properties":{"a":{"type":"string"},"b":{"type":"integer"}},"type":"object"}`,
	} {
		if got := string(rootObject(json.RawMessage(schema))); got != want {
			t.Errorf("%s becomes %s, want %s", schema, got, want)
		}
	}
}
