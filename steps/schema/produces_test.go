package schema

import (
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// path parses a short notation for a path: keys between dots, [0] an index, [*] each; ? before an element makes it optional.
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

func TestProducesUnknown(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{"", "true", "{}", `{"type":"nonsense"}`,
		`{"properties":7,"items":"x","anyOf":{},"allOf":5,"enum":{},"patternProperties":{"(?!x)":false}}`,
		`{"$ref":"https://example.com/x"}`, `{"$ref":"#"}`, `{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}`} {
		e, _ := entry("", schema)
		for _, text := range []string{"", "a", "[0]", "[*].b", "a.b.c"} {
			types, f := e.Produces(path(text))
			if text == "[*].b" && slices.Equal(types, []string{"array"}) {
				types = nil // an Each element gives an array, whatever the schema
			}
			if f != nil || types != nil {
				t.Errorf("%s at %q: got %v, %v, want neither types nor a fault", schema, text, types, f)
			}
		}
	}
	e, _ := entry("", "false")
	if _, f := e.Produces(nil); f == nil || f.Code != fault.ReferenceMissing {
		t.Errorf("schema false: got %v, want reference_missing", f)
	}
}
