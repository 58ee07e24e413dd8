package openapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// TestDoublingSchema: a body whose allOf refers twice to the next of forty schemas takes as much work as it has schemas.
func TestDoublingSchema(t *testing.T) {
	t.Parallel()
	var schemas []string
	for i := range 40 {
		schemas = append(schemas, fmt.Sprintf(`"a%d":{"allOf":[{"$ref":"#/components/schemas/a%d"},{"$ref":"#/components/schemas/a%d"}]}`, i, i+1, i+1))
	}
	schemas = append(schemas, `"a40":{"type":"object","required":["name"],"properties":{"name":{"type":"string"}}}`)
	text := `{"openapi":"3.0.0","info":{"title":"t","version":"1"},"paths":{"/things":{"post":{"requestBody":{"required":true,"content":{"application/json":` +
		`{"schema":{"$ref":"#/components/schemas/a0"}}}},"responses":{"200":{"description":"ok"}}}}},"components":{"schemas":{` + strings.Join(schemas, ",") + `}}}`
	root, err := parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	l := &loader{files: map[string]*tree{}, followed: map[reference]followed{}, root: root}
	f, ok := l.flatten(root.root().get("components").get("schemas").get("a0"))
	if !ok || len(f.members) != 1 || !f.required["name"] || l.work > 1000 {
		t.Errorf("%v, %d members, %d steps of work", ok, len(f.members), l.work)
	}
	d := mustLoad(t, []byte(text), nil)
	if input := d.operations[0].input; gjson.GetBytes(input, "required.0").Str != "name" {
		t.Errorf("%s", input)
	}
}
