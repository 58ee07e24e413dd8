package schema

import (
	"slices"

	"github.com/tidwall/gjson"
)

// bounds are the keywords that bound values, and say nothing of types and members.
var bounds = []string{"pattern", "format", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
	"multipleOf", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"}

// Structure returns a schema without the keywords that bound values: what is left says which types and members there are.
func Structure(schema []byte) []byte {
	return mapMembers(schema, func(key string, value gjson.Result) string {
		switch {
		case value.IsObject():
			return string(Structure([]byte(value.Raw)))
		case slices.Contains(bounds, key): // a property of such a name has an object
			return ""
		case value.IsArray() && !slices.Contains(dataKeywords, key):
			out := []byte{'['}
			for i, element := range value.Array() {
				if i > 0 {
					out = append(out, ',')
				}
				out = append(out, Structure([]byte(element.Raw))...)
			}
			return string(append(out, ']'))
		}
		return value.Raw
	})
}
