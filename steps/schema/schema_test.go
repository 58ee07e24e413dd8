package schema

import (
	"slices"
	"strings"
	"testing"
)

// Schemas of all dialects, as real sources publish them, check what they mean.
func TestDialects(t *testing.T) {
	t.Parallel()
	object := func(property string) string { return `{"type":"object","properties":{"a":` + property + `}}` }
	tests := []struct {
		name, schema string
		good, bad    []string // values of a; with a leading "=", whole arguments
		warning      string   // part of the only warning; "" for none
	}{
		{name: "nothing", schema: ``, good: []string{"1", "={}"}},
		{name: "true", schema: `true`, good: []string{"1"}},
		{name: "empty", schema: `{}`, good: []string{"1"}},
		{name: "2020-12", schema: `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",` +
			`"properties":{"a":{"prefixItems":[{"type":"string"}],"items":false}}}`,
			good: []string{`["x"]`, `[]`}, bad: []string{`[1]`, `["x",1]`}},
		{name: "draft-07", schema: `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object",` +
			`"definitions":{"n":{"type":"integer"}},"properties":{"a":{"$ref":"#/definitions/n","type":"string"}}}`,
			good: []string{"1"}, bad: []string{`"x"`}},
		{name: "draft-07 lists", schema: `{"$schema":"http://json-schema.org/draft-07/schema#",` +
			`"properties":{"a":{"items":[{"type":"string"}],"additionalItems":{"type":"integer"}}},"dependencies":{"a":["b"],` +
			`"c":{"required":["d"]}}}`,
			good: []string{`={"a":["x",1],"b":1}`, `={"c":1,"d":1}`}, bad: []string{`["x"]`, `={"a":["x","y"],"b":1}`, `={"c":1}`}},
		{name: "draft-04", schema: `{"$schema":"http://json-schema.org/draft-04/schema#","id":"http://example.com/root",` +
			`"properties":{"a":{"maximum":5,"exclusiveMaximum":true,"minimum":1,"exclusiveMinimum":false},` +
			`"b":{"$ref":"http://example.com/root#/properties/a"}}}`,
			good: []string{"1", "4.9", `={"b":2}`}, bad: []string{"5", "0", `={"b":5}`}},
		{name: "anchor", schema: `{"$defs":{"x":{"$anchor":"n","type":"integer"}},"properties":{"a":{"$ref":"#n"}}}`, good: []string{"1"},
			bad: []string{`"x"`}},
		{name: "draft-04 anchor", schema: `{"$schema":"http://json-schema.org/draft-04/schema#","definitions":{"x":{"id":"#n",` +
			`"type":"integer"}},"properties":{"a":{"$ref":"#n"}}}`, good: []string{"1"}, bad: []string{`"x"`}},
		{name: "an argument called id", schema: object(`{"type":"object","properties":{"id":{"type":"string"},"$ref":{"type":"string"}}}`),
			good: []string{`{"id":"x","$ref":"y"}`}, bad: []string{`{"id":1}`, `{"$ref":1}`}},
		{name: "nullable", schema: object(`{"type":"string","nullable":true}`), good: []string{`"x"`, "null"}, bad: []string{"1"}},
		{name: "nullable enum", schema: object(`{"type":"string","enum":["x"],"nullable":true}`), good: []string{`"x"`, "null"},
			bad: []string{`"y"`}},
		{name: "nullable reference", schema: `{"$defs":{"s":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/s","nullable":true}}}`,
			good: []string{`"x"`, "null"}, bad: []string{"1"}},
		{name: "x-nullable", schema: object(`{"type":["string"],"x-nullable":true}`), good: []string{"null"}, bad: []string{"1"}},
		{name: "not nullable", schema: object(`{"type":"string","nullable":false}`), bad: []string{"null"}},
		{name: "components", schema: `{"properties":{"a":{"$ref":"#/components/schemas/Pet"}},` +
			`"components":{"schemas":{"Pet":{"type":"object","required":["name"],"properties":{"name":{"type":"string","nullable":true}}}}}}`,
			good: []string{`{"name":null}`}, bad: []string{`{}`, `{"name":1}`}},
		{name: "escaped reference", schema: `{"$defs":{"a/b~c d":{"type":"integer"}},"properties":{"a":{"$ref":"#/$defs/a~1b~0c%20d"}}}`,
			good: []string{"1"}, bad: []string{`"x"`}},
		{name: "recursive", schema: `{"$defs":{"t":{"type":"object","properties":{"l":{"$ref":"#/$defs/t"}},` +
			`"additionalProperties":false}},"properties":{"a":{"$ref":"#/$defs/t"}}}`,
			good: []string{`{"l":{"l":{}}}`}, bad: []string{`{"l":{"m":1}}`}},
		{name: "reference to itself", schema: object(`{"$ref":"#/properties/a"}`), good: []string{"1"}},
		{name: "remote reference", schema: `{"properties":{"a":{"$ref":"https://example.com/x.json#/y"},"b":{"type":"integer"}}}`,
			good: []string{"1"}, bad: []string{`={"b":"x"}`}, warning: "not loaded"},
		{name: "file reference", schema: object(`{"$ref":"file:///etc/passwd"}`), good: []string{"1"}, warning: "not loaded"},
		{name: "dangling reference", schema: object(`{"$ref":"#/$defs/none"}`), good: []string{"1"}, warning: "not loaded"},
		{name: "unknown draft", schema: `{"$schema":"https://example.com/draft","properties":{"a":{"type":"integer"}}}`, good: []string{"1"},
			bad: []string{`"x"`}},
		{name: "format", schema: object(`{"type":"string","format":"uri"}`), good: []string{`"no uri"`}, bad: []string{"1"}},
		{name: "draft-07 format", schema: `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"format":"email"}}}`,
			good: []string{`"x"`}},
		{name: "unicode pattern", schema: object(`{"pattern":"^\\u00e9\\\\u$"}`), good: []string{`"é\\u"`}, bad: []string{`"e"`}},
		{name: "look-ahead", schema: object(`{"type":"string","pattern":"^(?!x).*$","maxLength":2}`), good: []string{`"x"`},
			bad: []string{"1", `"xxx"`}, warning: "#/properties/a/pattern"},
		{name: "look-ahead in names",
			schema: object(`{"patternProperties":{"^(?!x)":{"type":"integer"},"^y":{"type":"string"}},"additionalProperties":false}`),
			good:   []string{`{"z":"s","y":"s"}`}, bad: []string{`{"y":1}`}, warning: "pattern"},
		{name: "types that are none", schema: object(`{"type":"file"}`), good: []string{"1"}, warning: "#/properties/a/type"},
		{name: "required as a flag", schema: object(`{"type":"string","required":true}`), good: []string{`"x"`}, bad: []string{"1"},
			warning: "required"},
		{name: "bad keywords", schema: object(`{"type":"string","minLength":"3","maxLength":-1}`), good: []string{`"x"`}, bad: []string{"1"},
			warning: "; "},
		{name: "examples", schema: object(`{"type":"string","examples":{"x":1},"example":[],"default":5,"description":7,` +
			`"x-vendor":{"type":5}}`), good: []string{`"x"`}, bad: []string{"1"}},
		{name: "empty lists", schema: object(`{"anyOf":[],"enum":[]}`), good: []string{"1"}, warning: "cannot be used"},
		{name: "huge numbers", schema: object(`{"type":"number","maximum":1e999999999}`), good: []string{`"x"`}, warning: "too long"},
		{name: "large bound", schema: object(`{"minimum":12345678901234567890}`), good: []string{"12345678901234567890"},
			bad: []string{"12345678901234567889"}},
		{name: "not JSON", schema: `{"type":`, good: []string{"1"}, warning: "not JSON"},
		{name: "a list", schema: `[]`, good: []string{"1"}, warning: "not a JSON Schema"},
		{name: "a text", schema: object(`"string"`), good: []string{"1"}, warning: "is not a schema"},
		{name: "twice the same key", schema: `{"type":"object","type":"array"}`, good: []string{"1"}, warning: "twice"},
		{name: "deep", schema: strings.Repeat(`{"items":`, 200) + "{}" + strings.Repeat("}", 200), good: []string{"1"}, warning: "deep"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e, warnings := entry(test.schema, "")
			switch {
			case test.warning == "" && len(warnings) > 0, len(warnings) > 1:
				t.Errorf("warnings: %q", warnings)
			case test.warning != "" && (len(warnings) == 0 || !strings.Contains(warnings[0], test.warning)):
				t.Errorf("warnings: %q, want %q", warnings, test.warning)
			}
			args := func(value string) []byte {
				if whole, ok := strings.CutPrefix(value, "="); ok {
					return []byte(whole)
				}
				return []byte(`{"a":` + value + "}")
			}
			for _, value := range test.good {
				if faults := e.Check(args(value), nil); len(faults) > 0 {
					t.Errorf("%s is refused: %v", value, faults)
				}
			}
			for _, value := range test.bad {
				if faults := e.Check(args(value), nil); len(faults) == 0 {
					t.Errorf("%s is accepted", value)
				}
			}
			_ = e.Signature()
			_ = e.Names()
		})
	}
}

func TestProperties(t *testing.T) {
	t.Parallel()
	e, _ := entry(`{"$ref":"#/$defs/r","$defs":{"r":{"type":"object","properties":{"b":{},"a":{}},"allOf":[{"properties":{"c":{},"a":{}}},{"$ref":"#/$defs/r"}],
		"oneOf":[{"properties":{"d":{"properties":{"inner":{}}}}}],"if":{"properties":{"condition":{}}},"then":{"properties":{"e":{}}}}}}`, "")
	if got := e.Names(); !slices.Equal(got, []string{"b", "a", "c", "d", "e"}) {
		t.Errorf("got %v", got)
	}
	if e.Name("d") != "d" || e.Name("inner") != "" || e.Name("x") != "" {
		t.Error("Name does not know the properties")
	}
	if e, _ := entry("", ""); e.Names() != nil || e.Name("a") != "" {
		t.Error("without a schema there are properties")
	}
}
