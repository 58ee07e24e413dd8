package openapi

import (
	"fmt"
	"testing"

	"github.com/tidwall/gjson"
)

// TestBodiesWithoutMembers: an optional body that must not have members is not an argument.
func TestBodiesWithoutMembers(t *testing.T) {
	t.Parallel()
	const form, jsonBody = "application/x-www-form-urlencoded", "application/json"
	for _, test := range []struct {
		mediaType, schema string
		required, want    bool // the body is required; there is an argument for it
	}{
		{form, `{"type":"object","properties":{},"additionalProperties":false}`, false, false},
		{jsonBody, `{"type":"object","additionalProperties":false}`, false, false},
		{jsonBody, `{"$ref":"#/components/schemas/Empty"}`, false, false},
		{jsonBody, `{"type":"object","additionalProperties":false}`, true, true},
		{jsonBody, `{"type":"object"}`, false, true},
		{jsonBody, `{"type":"object","additionalProperties":true}`, false, true},
		{form, `{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`, false, true},
		{form, `{"allOf":[{"$ref":"#/components/schemas/Empty"},{"type":"object"}]}`, false, true},
	} {
		d := mustLoad(t, fmt.Appendf(nil,
			`{"openapi":"3.0.0","paths":{"/things":{"get":{"requestBody":{"required":%v,"content":{%q:{"schema":%s}}}}}},
			"components":{"schemas":{"Empty":{"type":"object","properties":{},"additionalProperties":false}}}}`, test.required, test.mediaType,
			test.schema), nil)
		o := d.operations[0]
		if got := gjson.GetBytes(o.input, "properties.@keys.0").Exists(); got != test.want || got != (o.body != nil) {
			t.Errorf("%s %s: %s, want a body argument: %t", test.mediaType, test.schema, o.input, test.want)
		}
	}
}
