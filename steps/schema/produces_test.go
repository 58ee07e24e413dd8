package schema

import (
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// path reads a path in short: keys between dots, [0] an index, [*] each, ? before an element makes it optional.
func path(text string) []Element {
	var elements []Element
	for segment := range strings.SplitSeq(text, ".") {
		if segment == "" {
			continue
		}
		var e Element
		segment, e.Optional = strings.CutPrefix(segment, "?")
		switch {
		case segment == "[*]":
			e.Each = true
		case strings.HasPrefix(segment, "["):
			e.Index, e.Key = true, strings.Trim(segment, "[]")
		default:
			e.Key = segment
		}
		elements = append(elements, e)
	}
	return elements
}

func TestProduces(t *testing.T) {
	t.Parallel()
	const closed = `{"type":"object","properties":{"count":{"type":"integer"},"name":{"type":["string","null"]},"size":{"type":"number"},
		"files":{"type":"array","items":{"type":"object","properties":{"path":{"type":"string"},"lines":{"type":"array",
		"items":{"type":"integer"}}},"additionalProperties":false}},
		"map":{"type":"object","additionalProperties":{"type":"boolean"}},"open":{"type":"object","properties":{"a":{"type":"string"}}},"any":{},
		"pair":{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":false},"old":{"type":"array",
		"items":[{"type":"string"}],"additionalItems":{"type":"null"}},
		"coded":{"type":"object","patternProperties":{"^x":{"type":"string"}},"additionalProperties":false},"mode":{"enum":["a",1,null]},
		"const":{"const":{"k":1}},
		"maybe":{"type":"object","nullable":true,"properties":{"v":{"type":"string","nullable":true}},"additionalProperties":false},
		"either":{"anyOf":[{"type":"object","properties":{"l":{"type":"string"}},"required":["l"],"additionalProperties":false},
		{"type":"array","items":{"type":"integer"}}]},
		"both":{"allOf":[{"type":"object","properties":{"m":{"type":["string","integer"]}}},{"properties":{"m":{"type":["integer","null"]}}}]},
		"tree":{"$ref":"#/$defs/tree"},"lost":{"$ref":"#/nowhere"},"never":false,"loop":{"$ref":"#/properties/loop"},
		"refNull":{"$ref":"#/$defs/text","nullable":true}},
		"$defs":{"text":{"type":"string"},"tree":{"type":"object","properties":{"left":{"$ref":"#/$defs/tree"},"value":{"type":"integer"}},
		"additionalProperties":false}},"additionalProperties":false}`
	e, warnings := entry("", closed)
	if len(warnings) > 0 {
		t.Fatal(warnings)
	}
	const missing = "missing"
	tests := map[string]string{ // path → types, "" when not known
		"": "object", "count": "integer", "size": "number", "name": "null string", "?count": "integer null",
		"files": "array", "files.[0]": "object", "files.0.path": "string", "files.[-1].lines.[2]": "integer", "files.[*]": "array",
		"files.[*].path":      "array",
		"files.[*].lines.[*]": "array", "files.[*].nme": missing, "files.path": missing, "files.[0].nme": missing, "files.[*].?nme": "array",
		"map.x": "boolean", "map.x.y": missing, "open.a": "string", "open.b": "", "open.b.c": "", "open.[0]": missing, "any": "", "any.x": "",
		"any.[0].y": "",
		"pair.0":    "string", "pair.[1]": "integer", "pair.[2]": missing, "pair.[-1]": "integer string", "pair.[*]": "array", "old.0": "string",
		"old.1":    "null",
		"coded.xa": "string", "coded.ya": missing, "mode": "null number string", "mode.x": missing, "const": "object", "const.k": "",
		"maybe": "null object", "maybe.v": "null string", "maybe.w": missing, "maybe.?w": "null",
		"either": "array object", "either.l": "string", "either.0": "integer", "either.m": missing, "both.m": "integer", "both.n": "",
		"tree.left.left.value": "integer", "tree.left.right": missing, "lost": "", "lost.x": "", "never": missing, "loop": "", "loop.x": "",
		"refNull": "null string",
		"cuont":   missing, "count.x": missing, "count.?x": "null", "name.x": missing, "[0]": missing, "[*]": missing,
	}
	for text, want := range tests {
		types, f := e.Produces(path(text))
		got := strings.Join(slices.Sorted(slices.Values(types)), " ")
		if f != nil {
			if got = missing; f.Code != fault.ReferenceMissing || f.Message == "" || len(types) > 0 {
				t.Errorf("%s: %v, %+v", text, types, f)
			}
		}
		if got != want {
			t.Errorf("%s: got %q, %v, want %q", text, got, f, want)
		}
	}
	for text, want := range map[string]string{
		"cuont":         "test.call: no member \"cuont\": its result has count, ",
		"count.x":       "test.call: no member \"x\": count in its result is integer",
		"files.[0].nme": "test.call: no member \"nme\": files[0] in its result has path, lines",
		"pair.[2]":      "test.call: no element [2]: pair in its result has none such",
		"never":         "test.call: no member \"never\": its result has none such",
		"files.path":    "test.call: no member \"path\": files in its result is array",
		"maybe.[0]":     "test.call: no element [0]: maybe in its result is null or object",
		"files.[*].nme": "test.call: no member \"nme\": files[*] in its result has path, lines",
	} {
		_, f := e.Produces(path(text))
		if !strings.HasPrefix(f.Message, want) {
			t.Errorf("%s: %q", text, f.Message)
		}
	}
	if _, f := e.Produces(path("cuont")); f.Nearest[0] != "count" || !slices.Contains(f.Available, "files") {
		t.Errorf("nearest: %+v", f)
	}
}

func TestProducesWithoutKnowledge(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{"", "true", "{}", `{"type":"nonsense"}`,
		`{"properties":7,"items":"x","anyOf":{},"allOf":5,"enum":{},"patternProperties":{"(?!x)":false}}`,
		`{"$ref":"https://example.com/x"}`, `{"$ref":"#"}`, `{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}`} {
		e, _ := entry("", schema)
		for _, text := range []string{"", "a", "[0]", "[*].b", "a.b.c"} {
			types, f := e.Produces(path(text))
			if text == "[*].b" && slices.Equal(types, []string{"array"}) {
				types = nil // a walk over each gives an array, whatever the schema
			}
			if f != nil || types != nil {
				t.Errorf("%s at %q: %v, %v", schema, text, types, f)
			}
		}
	}
	e, _ := entry("", "false")
	if _, f := e.Produces(nil); f == nil || f.Code != fault.ReferenceMissing {
		t.Errorf("false: %v", f)
	}
}

// References below an inner id are relative to it, and so lead to what is not known here.
func TestProducesBelowAnId(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		output string
		known  bool
	}{
		{`{"$defs":{"x":{"properties":{"b":{}},"additionalProperties":false}},"properties":{"a":{"$ref":"#/$defs/x"}}}`, true},
		{`{"$id":"http://root","$defs":{"x":{"properties":{"b":{}},"additionalProperties":false}},"properties":{"a":{"$ref":"#/$defs/x"}}}`,
			true},
		{`{"$defs":{"x":{"properties":{"b":{}},"additionalProperties":false}},"properties":{"a":{"$id":"in",` +
			`"allOf":[{"$ref":"#/$defs/x"}],"$defs":{"x":{}}}}}`, false},
		{`{"$defs":{"x":{"properties":{"b":{}},"additionalProperties":false}},"properties":{"a":{"allOf":[{"$ref":"#/$defs/x"}],` +
			`"$id":"in","$defs":{"x":{}}}}}`, false},
		{`{"$defs":{"x":{"properties":{"b":{}},"additionalProperties":false},"y":{"$id":"in"}},"properties":{"a":{"$ref":"#/$defs/x"}}}`, true},
		{`{"$defs":{"x":{"properties":{"b":{}},"additionalProperties":false}},"properties":{"$id":{"type":"string"},` +
			`"a":{"$ref":"#/$defs/x","$id":"#x"}}}`, true},
		{`{"$schema":"http://json-schema.org/draft-04/schema#","definitions":{"x":{"properties":{"b":{}},"additionalProperties":false}},
			"properties":{"a":{"id":"in","allOf":[{"$ref":"#/definitions/x"}],"definitions":{"x":{}}}}}`, false},
	} {
		e, _ := entry("", test.output)
		if _, f := e.Produces(path("a.c")); (f != nil) != test.known {
			t.Errorf("%s: %v", test.output, f)
		}
	}
}
