package openapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// TestDoublingSchema: if each of forty schemas of a body refers twice to the next, the work grows with the number of schemas, whatever
// keyword contains the references.
func TestDoublingSchema(t *testing.T) {
	t.Parallel()
	const refs = `[{"$ref":"#/components/schemas/aNEXT"},{"$ref":"#/components/schemas/aNEXT"}]`
	for name, target := range map[string]string{
		"allOf":     `{"allOf":` + refs + `}`,
		"anyOf":     `{"anyOf":` + refs + `}`,
		"oneOf":     `{"oneOf":` + refs + `}`,
		"mixed":     `{"allOf":[{"anyOf":` + refs + `},{"oneOf":` + refs + `}]}`,
		"reference": `{"$ref":"#/components/schemas/aNEXT"}`,
		"properties": `{"type":"object","required":["name"],"properties":{"name":{"$ref":"#/components/schemas/aNEXT"},` +
			`"b":{"$ref":"#/components/schemas/aNEXT"}}}`,
		"itself": `{"required":["name"],"properties":{"name":{}},"anyOf":[{"$ref":"#/components/schemas/a0"},` +
			`{"$ref":"#/components/schemas/aNEXT"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var schemas []string
			for i := range 40 {
				schemas = append(schemas, fmt.Sprintf(`"a%d":`, i)+strings.ReplaceAll(target, "NEXT", fmt.Sprint(i+1)))
			}
			schemas = append(schemas, `"a40":{"type":"object","required":["name"],"properties":{"name":{"type":"string"}}}`)
			text := `{"openapi":"3.0.0","info":{"title":"t","version":"1"},"paths":{"/things":{"post":{"requestBody":{"required":true,` +
				`"content":{"application/json":` +
				`{"schema":{"$ref":"#/components/schemas/a0"}}}},"responses":{"200":{"description":"ok","content":{"application/json":` +
				`{"schema":{"$ref":"#/components/schemas/a0"}}}}}}}},"components":{"schemas":{` + strings.Join(schemas, ",") + `}}}`
			root, err := parse([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			l := &loader{files: map[string]*tree{}, resolutions: map[reference]resolution{}, document: root}
			f, ok := l.flatten(root.root().get("components").get("schemas").get("a0"))
			if name != "reference" && (!ok || !f.required["name"]) || l.work > 2000 {
				t.Errorf("flatten: got %v, %+v after %d steps of work, want name to be required after at most 2000", ok, f, l.work)
			}
			d := mustLoad(t, []byte(text), nil)
			o := d.operations[0]
			if name != "reference" && gjson.GetBytes(o.input, "required.0").Str != "name" || len(o.input)+len(o.output) > 8*len(text) {
				t.Errorf("got schemas of %d and %d bytes, want at most %d in all and name to be required: %s", len(o.input), len(o.output), 8*len(text), o.input)
			}
		})
	}
}
