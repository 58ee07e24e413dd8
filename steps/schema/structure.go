package schema

import (
	"bytes"
	"slices"

	"github.com/tidwall/gjson"
)

// bounds are the keywords that bound values, and say nothing of types and members; and those whose meaning turns around, or widens too far,
// once such keywords in them are gone.
var bounds = []string{"pattern", "format", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
	"multipleOf", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "contains", "minContains", "maxContains", "not",
	"if", "then", "else", "unevaluatedItems", "unevaluatedProperties"}

// Structure returns a schema without the keywords that bound values: what is left says which types and members there are. It accepts what
// the schema accepts.
func Structure(schema []byte) []byte {
	return mapMembers(schema, func(key string, value gjson.Result) string {
		form := forms[key]
		switch {
		case form == formSchemaMap, form == formPatternMap: // its keys are names, not keywords
			return string(mapMembers([]byte(value.Raw), func(_ string, named gjson.Result) string { return structureOf(named) }))
		case slices.Contains(bounds, key):
			return ""
		case slices.Contains(dataKeywords, key):
			return value.Raw
		case key == "oneOf": // alternatives that bounds told apart may now match together
			return `[{"anyOf":` + structureOf(value) + `}]`
		}
		return structureOf(value)
	})
}

// structureOf returns the structure of a schema, or of each schema of a list.
func structureOf(value gjson.Result) string {
	if !value.IsArray() {
		return string(Structure([]byte(value.Raw)))
	}
	var elements [][]byte
	for _, element := range value.Array() {
		elements = append(elements, []byte(structureOf(element)))
	}
	return "[" + string(bytes.Join(elements, []byte{','})) + "]"
}
