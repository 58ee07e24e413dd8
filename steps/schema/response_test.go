package schema_test

import (
	"encoding/json"
	"testing"

	"github.com/onecall-mcp/onecall/steps/schema"
)

// TestResponseOf: what a schema says of a value, that of the response says of its body.
func TestResponseOf(t *testing.T) {
	t.Parallel()
	const around = `{"status":200,"headers":{"etag":"x"},"body":`
	for _, c := range []struct{ body, good, bad string }{
		{`{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}`, `{"id":1}`, `{}`},
		{`{"type":"array","items":{"$ref":"#/$defs/a~1b"},"$defs":{"a/b":{"type":"string"}}}`, `["x"]`, `[1]`},
		{`{"properties":{"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["next"]}`, `{"next":{"next":null}}`, `{"next":{}}`},
		{`{"$id":"https://s.example/x","properties":{"a":{"type":"null"},"b":{"$ref":"#/properties/a"}}}`, `{"b":null}`, `{"b":1}`},
		{`{"$schema":"http://json-schema.org/draft-04/schema#","type":"integer","minimum":1,"exclusiveMinimum":true}`, `2`, `1`},
		{`{"enum":["#/x",{"$ref":"#/y"}]}`, `{"$ref":"#/y"}`, `{"$ref":"#/properties/body/y"}`},
		{`{"properties":{"$ref":{"type":"string"},"id":{"type":"integer"}}}`, `{"$ref":"x","id":1}`, `{"$ref":1}`},
		{`false`, ``, `1`}, {`true`, `1`, ``}, {``, `[1]`, ``}, {`{`, `[1]`, ``},
	} {
		response := schema.ResponseOf([]byte(c.body))
		if !json.Valid(response) {
			t.Fatalf("%s: %s is not JSON", c.body, response)
		}
		v, warnings := schema.Compile(response)
		if v == nil || warnings != "" {
			t.Fatalf("%s: %s does not compile: %s", c.body, response, warnings)
		}
		if faults := v.Check(t.Context(), []byte(around+c.good+`}`)); c.good != "" && len(faults) > 0 {
			t.Errorf("%s: %s has faults %v", response, c.good, faults)
		}
		if c.bad != "" && len(v.Check(t.Context(), []byte(around+c.bad+`}`))) == 0 {
			t.Errorf("%s: %s has no fault", response, c.bad)
		}
	}
	types, f := new(schema.Paths).TypesAt("f", schema.ResponseOf([]byte(`{"items":{"$ref":"#/$defs/x"},"$defs":{"x":{"type":"string"}}}`)),
		[]schema.Element{{Key: "body"}, {Key: "0", Index: true}})
	if f != nil || len(types) != 1 || types[0] != "string" {
		t.Errorf("got types %v, %v, want string", types, f)
	}
}
