package schema

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// bodyAt is where the schema of a body stands in that of a response.
const bodyAt = "/properties/body"

// ResponseOf returns the schema of {"status","headers","body"}, where body has the given schema; an empty or unusable one: any body.
func ResponseOf(body []byte) []byte {
	out := []byte(`{"type":"object","properties":{"status":{"type":"integer"},` +
		`"headers":{"type":"object","additionalProperties":{"type":"string"}}`)
	if !gjson.ValidBytes(body) {
		return append(out, `,"body":{}},"required":["status","headers","body"]}`...)
	}
	root, dialect := gjson.ParseBytes(body), ""
	moved := []byte(root.Raw)
	if root.IsObject() {
		moved = mapMembers(moved, func(key string, value gjson.Result) string {
			switch key {
			case "$schema":
				dialect = `,"$schema":` + value.Raw
				return ""
			case "$id", "id": // references would begin there
				if value.Type == gjson.String {
					return ""
				}
			}
			return moveMember(key, value)
		})
	}
	out = append(append(out, `,"body":`...), moved...)
	return append(out, `},"required":["status","headers","body"]`+dialect+`}`...)
}

// dataKeywords hold values, in which nothing is a reference.
var dataKeywords = []string{"const", "enum", "default", "example", "examples"}

// moveMember returns a member of a schema whose references within the document lead to where the schema stands below bodyAt.
func moveMember(key string, value gjson.Result) string {
	switch {
	case key == "$ref" && (value.Raw == `"#"` || strings.HasPrefix(value.Raw, `"#/`)):
		return `"#` + bodyAt + value.Raw[2:]
	case slices.Contains(dataKeywords, key) && !value.IsObject(), !value.IsObject() && !value.IsArray():
		return value.Raw
	case value.IsArray():
		var elements [][]byte
		value.ForEach(func(_, element gjson.Result) bool {
			elements = append(elements, []byte(moveMember("", element)))
			return true
		})
		return "[" + string(bytes.Join(elements, []byte{','})) + "]"
	}
	return string(mapMembers([]byte(value.Raw), moveMember))
}
