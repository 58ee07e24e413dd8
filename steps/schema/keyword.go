package schema

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// form is the required form of a keyword's value.
type form uint8

const (
	formAnnotation form = iota + 1 // dropped
	formSchema                     // a schema
	formSchemaList                 // a non-empty list of schemas
	formSchemaMap                  // an object of schemas
	formAny                        // any value
	formCount                      // an integer of at least 0
	formNumber                     // a number
	formPositive                   // a number above 0
	formFlag                       // true or false
	formWords                      // a list of texts
	formPattern                    // a regular expression
	formTypes                      // a type or a list of types
	formValues                     // a non-empty list of values
	formText                       // a text
	formRewritten                  // depends on other keywords, converted after them
	formPatternMap                 // an object of schemas by regular expression
	formWordsMap                   // an object of lists of texts
)

var forms = map[string]form{
	"title": formAnnotation, "description": formAnnotation, "default": formAnnotation, "example": formAnnotation, "examples": formAnnotation,
	"$comment": formAnnotation, "format": formAnnotation, "contentEncoding": formAnnotation, "contentMediaType": formAnnotation,
	"contentSchema": formAnnotation, "deprecated": formAnnotation, "readOnly": formAnnotation, "writeOnly": formAnnotation,
	"$schema": formAnnotation, "$vocabulary": formAnnotation, "discriminator": formAnnotation, "xml": formAnnotation,
	"externalDocs":     formAnnotation,
	"$recursiveAnchor": formAnnotation,

	"not": formSchema, "if": formSchema, "then": formSchema, "else": formSchema, "contains": formSchema, "propertyNames": formSchema,
	"additionalProperties": formSchema, "unevaluatedItems": formSchema, "unevaluatedProperties": formSchema,
	"allOf": formSchemaList, "anyOf": formSchemaList, "oneOf": formSchemaList, "prefixItems": formSchemaList,
	"properties": formSchemaMap, "$defs": formSchemaMap, "definitions": formSchemaMap, "dependentSchemas": formSchemaMap,
	"patternProperties": formPatternMap, "dependentRequired": formWordsMap,

	"minLength": formCount, "maxLength": formCount, "minItems": formCount, "maxItems": formCount, "minProperties": formCount,
	"maxProperties": formCount, "minContains": formCount, "maxContains": formCount,
	"minimum": formNumber, "maximum": formNumber, "multipleOf": formPositive,
	"uniqueItems": formFlag, "required": formWords, "pattern": formPattern, "type": formTypes, "enum": formValues, "const": formAny,
	"$anchor": formText, "$dynamicAnchor": formText, "$dynamicRef": formText,

	"exclusiveMinimum": formRewritten, "exclusiveMaximum": formRewritten, "items": formRewritten, "additionalItems": formRewritten,
	"dependencies": formRewritten, "nullable": formRewritten, "x-nullable": formRewritten, "$id": formRewritten, "id": formRewritten,
	"$ref":          formRewritten,
	"$recursiveRef": formRewritten,
}

// wordList returns a list of texts without duplicates; false if v is not a list of texts.
func wordList(v any) (any, bool) {
	list, ok := v.([]any)
	if !ok {
		return nil, false
	}
	unique := []any{}
	for _, word := range list {
		if _, ok := word.(string); !ok {
			return nil, false
		}
		if !slices.Contains(unique, word) {
			unique = append(unique, word)
		}
	}
	return unique, true
}

var jsonTypes = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// parseTypes returns a type, or a list of types without duplicates; false if v is neither.
func parseTypes(v any) (any, bool) {
	if word, ok := v.(string); ok {
		return word, slices.Contains(jsonTypes, word)
	}
	list, ok := wordList(v)
	if !ok || len(list.([]any)) == 0 {
		return nil, false
	}
	for _, word := range list.([]any) {
		if !slices.Contains(jsonTypes, word.(string)) {
			return nil, false
		}
	}
	return list, true
}

// unusableReason says why the value of a keyword cannot be used. For an unknown type it lists the valid types and the nearest.
func unusableReason(form form, v any) string {
	if form != formTypes {
		return "cannot be used"
	}
	subject, suggestion := "this", ""
	words, _ := v.([]any)
	for _, candidate := range append(words, v) {
		if word, ok := candidate.(string); ok && !slices.Contains(jsonTypes, word) {
			subject = fault.Quote(word)
			if nearest := fault.Nearest(word, jsonTypes, 1); len(nearest) > 0 {
				suggestion = "; did you mean " + nearest[0] + "?"
			}
			break
		}
	}
	return subject + " is not a type: the types are " + strings.Join(jsonTypes, ", ") + suggestion
}

// parseNumber returns a number in the given form; false if v has another form. A count is below 2^31, and is returned as an integer: 2.0
// is 2.
func parseNumber(v any, form form) (any, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return nil, false
	}
	r, ok := new(big.Rat).SetString(n.String())
	switch {
	case !ok:
		return nil, false
	case form == formNumber:
		return n, true
	case form == formPositive:
		return n, r.Sign() > 0
	}
	return json.Number(r.RatString()), r.IsInt() && r.Sign() >= 0 && r.Num().BitLen() < 32
}

func withoutDuplicates(words ...any) []any {
	list, _ := wordList(words)
	return list.([]any)
}

// ignoresSiblings reports whether an object has a $ref that makes the keywords next to it ignored.
func (d *document) ignoresSiblings(object map[string]any) bool {
	reference, _ := object["$ref"].(string)
	return d.refSiblingsIgnored && reference != ""
}

// withoutSiblings returns a copy of an object without the keywords next to its $ref. It keeps definitions, because references lead to them,
// and nullable, which extends a schema.
func withoutSiblings(object map[string]any) map[string]any {
	kept := maps.Clone(object)
	maps.DeleteFunc(kept, func(key string, _ any) bool {
		_, known := forms[key]
		return known && !slices.Contains([]string{"$ref", "definitions", "$defs", "nullable", "x-nullable"}, key)
	})
	return kept
}
