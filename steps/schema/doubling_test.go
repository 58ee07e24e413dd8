package schema

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// doubling are schemas with n definitions, each of which refers twice to the next; the last is an object.
func doubling(n int) map[string]string {
	const refs = `[{"$ref":"#/$defs/dNEXT"},{"$ref":"#/$defs/dNEXT"}]`
	schemas := map[string]string{}
	for name, target := range map[string]string{
		"allOf":      `{"allOf":` + refs + `}`,
		"anyOf":      `{"anyOf":` + refs + `}`,
		"oneOf":      `{"oneOf":` + refs + `}`,
		"mixed":      `{"allOf":[{"anyOf":` + refs + `},{"oneOf":` + refs + `}]}`,
		"reference":  `{"$ref":"#/$defs/dNEXT"}`,
		"properties": `{"type":"object","required":["name"],"properties":{"name":{"$ref":"#/$defs/dNEXT"},"b":{"$ref":"#/$defs/dNEXT"}}}`,
		"items":      `{"type":"array","prefixItems":` + refs + `,"items":{"$ref":"#/$defs/dNEXT"}}`,
		"patterns":   `{"type":"object","patternProperties":{"^n":{"$ref":"#/$defs/dNEXT"},"e$":{"$ref":"#/$defs/dNEXT"}}}`,
		"itself":     `{"required":["name"],"properties":{"name":{"$ref":"#"}},"anyOf":[{"$ref":"#/$defs/d0"},{"$ref":"#/$defs/dNEXT"}]}`,
		"if":         `{"if":{"$ref":"#/$defs/dNEXT"},"then":{"$ref":"#/$defs/dNEXT"},"else":{"$ref":"#/$defs/dNEXT"}}`,
		"not":        `{"not":{"allOf":` + refs + `}}`,
		"dependent":  `{"dependentSchemas":{"name":{"allOf":` + refs + `}}}`,
	} {
		var b strings.Builder
		b.WriteString(`{"type":["object","array"],"$ref":"#/$defs/d0","$defs":{`)
		for i := range n {
			fmt.Fprintf(&b, `"d%d":%s,`, i, strings.ReplaceAll(target, "NEXT", strconv.Itoa(i+1)))
		}
		fmt.Fprintf(&b, `"d%d":{"type":"object","required":["name"],"properties":{"name":{"type":"string"}}}}}`, n)
		schemas[name] = b.String()
	}
	return schemas
}

// TestDoublingSchemas: the work on a schema is bounded if its definitions double: each of these would take 2^40 steps.
func TestDoublingSchemas(t *testing.T) {
	t.Parallel()
	for name, schema := range doubling(40) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, _ := entry(schema, "")
			if n := len(e.Signature()); n > 2*maxSignature {
				t.Errorf("the signature has %d bytes, want at most %d", n, 2*maxSignature)
			}
			if n := len(Outline(e.Schema())); n > 1<<20 {
				t.Errorf("the outline has %d bytes, want at most %d", n, 1<<20)
			}
			if n := len(e.Names()); n > 2 {
				t.Errorf("got %d properties, want at most 2", n)
			}
			path := []Element{{Key: "name"}, {Key: "name"}, {Key: "0"}, {Each: true}, {Key: "missing"}}
			for n := range len(path) + 1 {
				p := pathWalker{walker: newWalker([]byte(schema)), path: path[:n], visited: map[visitKey]typeSet{}, deepest: -1}
				p.walk(p.root, 0)
				if len(p.visited) > 500 {
					t.Errorf("a walk of %d elements visited %d positions, want at most 500", n, len(p.visited))
				}
				if _, f := typesAt("a.b", []byte(schema), path[:n]); f != nil && len(f.Message) > maxText {
					t.Errorf("message of %d bytes, want at most %d: %s", len(f.Message), maxText, f.Message)
				}
			}
			err := e.Call(t.Context(), []byte(`{"name":1}`))
			if code := fault.CodeOf(err); code != "" && code != fault.BadArguments && code != fault.LimitExceeded ||
				code != "" && len(err.Error()) > 2*maxText {
				t.Errorf("call: got %v, want bad_arguments or limit_exceeded of at most %d bytes", err, 2*maxText)
			}
		})
	}
}
