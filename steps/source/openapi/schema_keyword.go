package openapi

import (
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// keywordShape is the required shape of a keyword's value.
type keywordShape uint8

const (
	shapeAny keywordShape = iota + 1
	shapeSchema
	shapeList   // a list of schemas
	shapeMap    // an object of schemas
	shapeValues // a non-empty list
	shapeText
	shapeNumber
	shapeFlag
	shapeObject
	shapeSpecial // handled separately
)

// keywords are the keywords that are written, with the shape of their values; all others are dropped.
var keywords = map[string]keywordShape{
	"type": shapeSpecial, "exclusiveMinimum": shapeSpecial, "exclusiveMaximum": shapeSpecial, "required": shapeSpecial,
	"properties": shapeSpecial,
	"items":      shapeSpecial, "description": shapeSpecial, "enum": shapeSpecial, "nullable": shapeSpecial,
	"minimum": shapeNumber, "maximum": shapeNumber, "multipleOf": shapeNumber, "minLength": shapeNumber, "maxLength": shapeNumber,
	"minItems": shapeNumber,
	"maxItems": shapeNumber, "minProperties": shapeNumber, "maxProperties": shapeNumber, "minContains": shapeNumber,
	"maxContains": shapeNumber,
	"const":       shapeAny, "default": shapeAny, "pattern": shapeText, "format": shapeText, "contentEncoding": shapeText,
	"contentMediaType": shapeText,
	"uniqueItems":      shapeFlag, "deprecated": shapeFlag, "dependentRequired": shapeObject,
	"patternProperties": shapeMap, "dependentSchemas": shapeMap,
	"prefixItems": shapeList, "allOf": shapeList, "anyOf": shapeList, "oneOf": shapeList,
	"not": shapeSchema, "if": shapeSchema, "then": shapeSchema, "else": shapeSchema, "contains": shapeSchema, "propertyNames": shapeSchema,
	"additionalProperties": shapeSchema, "additionalItems": shapeSchema, "unevaluatedItems": shapeSchema, "unevaluatedProperties": shapeSchema,
}

// exclusive maps a bound to the keyword that, if it is true as in OpenAPI 3.0, makes the bound exclusive.
var exclusive = map[string]string{"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}

// keyword writes one keyword if its value is usable. It returns preceded for the next member (see describe).
func (e *emitter) keyword(v value, name string, member value, shape keywordShape, depth int, preceded bool) bool {
	kind := member.kind()
	valid := true
	switch shape {
	case shapeSpecial:
		return e.special(v, name, member, depth, preceded)
	case shapeAny:
		valid = name != "default" || e.input // the default of a result means nothing
		if !valid {
			return preceded
		}
	case shapeSchema:
		valid = kind == '{' || kind == 't' || kind == 'f'
	case shapeList:
		valid = kind == '[' && member.t.nodes[member.at].next > member.at+1
	case shapeMap, shapeObject:
		valid = kind == '{'
	case shapeText:
		valid = kind == '"'
	case shapeNumber:
		if valid = kind == '0'; v.get(exclusive[name]).isTrue() {
			return preceded // the exclusive bound replaces it
		}
	case shapeFlag:
		if valid = kind == 't' || kind == 'f'; kind == 'f' {
			return preceded
		}
	}
	if !valid {
		if kind != 'n' && kind != '[' {
			e.warn("%s %s is not used", name, fault.Short(string(member.raw())))
		}
		return preceded
	}
	e.beginKeyword(name, preceded)
	switch shape {
	case shapeSchema:
		e.schema(member, depth+1, "")
	case shapeList:
		e.out = append(e.out, '[')
		for i, element := range member.elements() {
			if i > 0 {
				e.out = append(e.out, ',')
			}
			e.schema(element, depth+1, "")
		}
		e.out = append(e.out, ']')
	case shapeMap:
		e.out = append(e.out, '{')
		first := true
		for key, element := range member.members() {
			if !first {
				e.out = append(e.out, ',')
			}
			first = false
			e.out = append(rawjson.AppendQuote(e.out, key), ':')
			e.schema(element, depth+1, "")
		}
		e.out = append(e.out, '}')
	default:
		e.out = member.appendCompact(e.out)
	}
	return true
}

// special writes the keywords whose value depends on others.
func (e *emitter) special(v value, name string, member value, depth int, preceded bool) bool {
	nullable := v.get("nullable").isTrue() || v.get("x-nullable").isTrue()
	switch name {
	case "type":
		types := e.types(member)
		if len(types) == 0 {
			return preceded
		}
		if nullable && !slices.Contains(types, "null") {
			types = append(types, "null")
		}
		e.beginKeyword(name, preceded)
		if len(types) == 1 {
			e.out = rawjson.AppendQuote(e.out, types[0])
			return true
		}
		e.strings(types)
	case "enum":
		return e.enum(v, member, nullable, preceded)
	case "required":
		return e.required(v, member, preceded)
	case "properties":
		return e.properties(member, depth, preceded)
	case "items":
		if member.kind() == '[' {
			return e.keyword(v, "prefixItems", member, shapeList, depth, preceded)
		}
		return e.keyword(v, name, member, shapeSchema, depth, preceded)
	case "exclusiveMinimum", "exclusiveMaximum":
		bound := member
		if member.isTrue() {
			bound = v.get(strings.ToLower(strings.TrimPrefix(name, "exclusive")))
		}
		if bound.kind() != '0' {
			return preceded
		}
		e.beginKeyword(name, preceded)
		e.out = append(e.out, bound.raw()...)
	}
	return true
}

func (e *emitter) strings(list []string) {
	e.out = append(e.out, '[')
	for i, text := range list {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		e.out = rawjson.AppendQuote(e.out, text)
	}
	e.out = append(e.out, ']')
}

// typeNames maps the types of JSON Schema, and other names that documents use for them; "": any type.
var typeNames = map[string]string{"array": "array", "boolean": "boolean", "integer": "integer", "null": "null", "number": "number",
	"object": "object",
	"string": "string", "file": "string", "bool": "boolean", "int": "integer", "int32": "integer", "int64": "integer", "long": "integer",
	"float":  "number",
	"double": "number", "decimal": "number", "date": "string", "date-time": "string", "datetime": "string", "uuid": "string",
	"uri": "string", "text": "string",
	"any": "", "": ""}

// types reads a type or a list of types; none if any type is allowed.
func (e *emitter) types(member value) []string {
	var types []string
	add := func(v value) bool {
		word := v.text()
		name, known := typeNames[word]
		if !known {
			name, known = typeNames[strings.ToLower(word)]
		}
		if name != word || !known {
			e.warn("the type %s is taken as %s", fault.Short(string(v.raw())), orAny(name))
		}
		if name != "" && !slices.Contains(types, name) {
			types = append(types, name)
		}
		return name != ""
	}
	if member.kind() != '[' {
		add(member)
		return types
	}
	for _, element := range member.elements() {
		if !add(element) {
			return nil
		}
	}
	return types
}

func orAny(name string) string {
	if name == "" {
		return "any"
	}
	return name
}

// enum writes the values of a schema, as its type means them: YAML reads 1 and true as other values than the texts that are meant. Values
// that can have no type of the schema are left out, all of them.
func (e *emitter) enum(v, member value, nullable, preceded bool) bool {
	if member.kind() != '[' || member.t.nodes[member.at].next == member.at+1 {
		e.warn("an enum without values is not used")
		return preceded
	}
	var values []string
	for _, element := range member.elements() {
		nullable = nullable && element.kind() != 'n'
		values = append(values, string(element.appendCompact(nil)))
	}
	if declared := v.get("type"); declared.ok() {
		types := e.types(declared)
		fitted, ok := schema.FitValues(types, values)
		of := strings.Join(types, " or ")
		switch shown := fault.Short(strings.Join(values, ", ")); {
		case !ok:
			e.warn("the enum %s is left open: its values are not of type %s", shown, of)
			return preceded
		case !slices.Equal(fitted, values), v.get(spelledEnum).isTrue():
			e.warn("the values of the enum %s are taken as type %s", shown, of)
		}
		values = fitted
	}
	if nullable {
		values = append(values, "null")
	}
	e.beginKeyword("enum", preceded)
	e.out = append(e.out, "["+strings.Join(values, ",")+"]"...)
	return true
}

// required writes the required names, except for read-only members.
func (e *emitter) required(v, member value, preceded bool) bool {
	if member.kind() != '[' {
		if member.kind() != 'f' && member.kind() != 'n' && !v.get("in").ok() { // a parameter of Swagger 2.0 has a boolean
			e.warn("required %s is not used: it is not a list of names", fault.Short(string(member.raw())))
		}
		return preceded
	}
	properties := v.get("properties")
	var names []string
	listed := map[string]bool{}
	for _, element := range member.elements() {
		e.l.countWork(1)
		name := element.text()
		if element.kind() != '"' || listed[name] || e.input && e.l.readOnly(properties.get(name)) {
			continue
		}
		listed[name] = true
		names = append(names, name)
	}
	if len(names) == 0 {
		return preceded
	}
	e.beginKeyword("required", preceded)
	e.strings(names)
	return true
}

func (e *emitter) properties(member value, depth int, preceded bool) bool {
	if !member.isObject() {
		e.warn("properties %s is not used: it is not an object", fault.Short(string(member.raw())))
		return preceded
	}
	e.beginKeyword("properties", preceded)
	e.out = append(e.out, '{')
	first := true
	for name, property := range member.members() {
		if e.input && e.l.readOnly(property) {
			continue
		}
		if !first {
			e.out = append(e.out, ',')
		}
		first = false
		e.out = append(rawjson.AppendQuote(e.out, name), ':')
		e.schema(property, depth+1, "")
	}
	e.out = append(e.out, '}')
	return true
}
