package openapi

import (
	"strings"
	"testing"
)

// TestEnumsOfAnotherType: the values of an enum are meant as its type says, in their spelling, wherever the schema stands. Each change is
// told with the function's name.
func TestEnumsOfAnotherType(t *testing.T) {
	t.Parallel()
	const body = `      requestBody: {content: {application/json: {schema: {type: object, properties: {level: SCHEMA}}}}}
`
	v3 := func(operation string) string {
		return "openapi: 3.0.3\ninfo: {title: t, version: '1'}\npaths:\n  /rates/{level}:\n    post:\n" + operation +
			"      responses: {'200': {description: ok}}\n"
	}
	parameter := func(in string) string {
		return v3("      parameters: [{name: level, in: " + in + ", required: true, schema: SCHEMA}]\n")
	}
	swagger := "swagger: '2.0'\ninfo: {title: t, version: '1'}\npaths:\n  /rates/{level}:\n    post:\n" +
		"      parameters: [{name: level, in: path, required: true, MEMBERS}]\n      responses: {'200': {description: ok}}\n"
	for _, schema := range []struct{ written, values, warning string }{
		{"type: string, enum: [1, 2]", `"enum":["1","2"]`, "the values of the enum 1, 2 are taken as type string"},
		{"type: string, enum: [010, 0x1F, 1_0, True]", `"enum":["010","0x1F","1_0","True"]`, "are taken as type string"},
		{"enum: [010, b], type: string", `"enum":["010","b"]`, "are taken as type string"},
		{"type: string, enum: [true, null]", `"enum":["true",null]`, "are taken as type string"},
		{"type: integer, enum: ['1', '2']", `"enum":[1,2]`, "are taken as type integer"},
		{"type: boolean, enum: ['true']", `"enum":[true]`, "are taken as type boolean"},
		{"type: boolean, enum: ['yes']", ``, `the enum "yes" is left open: its values are not of type boolean`},
		{"type: string, enum: [a, 'b']", `"enum":["a","b"]`, ""},
		{"type: integer, enum: [010]", `"enum":[8]`, ""},
	} {
		for where, text := range map[string]string{"query": parameter("query"), "path": parameter("path"), "body": v3(body), "swagger": swagger} {
			text = strings.NewReplacer("SCHEMA", "{"+schema.written+"}", "MEMBERS", schema.written).Replace(text)
			doc, err := load([]byte(text), nil)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			op := doc.operations[0]
			if !strings.Contains(string(op.input), schema.values) || (schema.values == "") == strings.Contains(string(op.input), `"enum"`) {
				t.Errorf("%s, %s: got %s, want %s", where, schema.written, op.input, schema.values)
			}
			told := ""
			for _, w := range doc.warnings {
				if w.function == op.name {
					told += w.what
				}
			}
			if !strings.Contains(told, schema.warning) || schema.warning == "" && strings.Contains(told, "enum") {
				t.Errorf("%s, %s: got the warning %q of %s, want %q", where, schema.written, told, op.name, schema.warning)
			}
		}
	}
}
