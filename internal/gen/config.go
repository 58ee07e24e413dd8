package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/config"
)

// configSchema returns the published schema of a configuration. It takes what no tag says from configFields and configDefs.
func configSchema(source structs) object {
	c := configSchemas{source}
	root := c.structSchema(source.mustGet("Config"), false)
	head := object{
		{"$schema", dialect},
		{"title", "onecall configuration"},
		{"description", "onecall.yaml or onecall.json. Every key is optional."},
	}
	return append(append(head, root...), member{"$defs", json.RawMessage(configDefs)})
}

// configFields are the schemas of fields whose types and tags do not say everything, by struct and key.
var configFields = map[string]string{
	"MCPServer.type":        `{"$ref": "#/$defs/transport"}`,
	"Group.resources":       `{"type": "array", "items": {"type": "string"}, "minItems": 1}`,
	"Endpoint.query":        `{"type": ["object", "null"]}`,
	"Command.args":          `{"type": ["object", "null"], "additionalProperties": {"type": "object"}}`,
	"Function.defaults":     `{"type": ["object", "null"]}`,
	"Function.gives":        `{"anyOf": [{"$ref": "#/$defs/texts"}, {"type": "object", "additionalProperties": {"$ref": "#/$defs/texts"}}]}`,
	"Function.takes":        `{"type": ["object", "null"], "additionalProperties": {"type": "string", "minLength": 1}}`,
	"Bearer.functions":      `{"type": ["array", "null"], "items": {"type": "string", "minLength": 1}, "minItems": 1}`,
	"JWT.scopes":            `{"type": "object", "minProperties": 1, "additionalProperties": {"enum": ["read", "read_write", "admin"]}}`,
	"Ladder.rungs":          `{"type": ["array", "null"], "items": {"type": "string"}, "maxItems": 100}`,
	"Budget.maxTotalTokens": `{"type": ["integer", "null"], "anyOf": [{"const": 0}, {"minimum": 150}, {"type": "null"}]}`,
	"Results.store":         `{"anyOf": [{"enum": ["memory", "disk", "postgres", null]}, {"type": "string", "pattern": "\\$\\{"}]}`,
}

const configDefs = `{
	"text": {"type": ["string", "null"], "minLength": 1},
	"texts": {"type": ["array", "null"], "items": {"type": "string"}},
	"scalars": {"type": ["array", "null"], "items": {"type": ["string", "number", "boolean"]}},
	"strings": {"type": ["object", "null"], "additionalProperties": {"type": ["string", "number", "boolean"]}},
	"transport": {"enum": ["stdio", "local", "http", "streamable-http", "streamableHttp", "streamable_http", "remote", "sse", null]},
	"foreign": {"description": "Written by other programs; not read."},
	"size": {"anyOf": [
		{"type": "integer", "minimum": 1},
		{"type": "string", "pattern": "^[0-9]*[1-9][0-9]* ?([KMG]i?)?B$"},
		{"type": "null"}
	]},
	"duration": {"anyOf": [
		{"type": "string", "pattern": "^([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*$"},
		{"type": "null"}
	]}
}`

// configSchemas builds schemas from the structs of a configuration.
type configSchemas struct{ structs }

// structSchema returns the schema of an object that has only the fields of a struct. A struct with needed fields is never null.
func (c configSchemas) structSchema(o *structType, orNull bool) object {
	var properties object
	var needed []string
	for _, f := range o.fields {
		if f.tag.Get("needed") != "" {
			needed = append(needed, f.name)
		}
		if f.tag.Get("having") != "" {
			properties = c.addForm(properties, o, &f)
			continue
		}
		properties = append(properties, member{f.name, c.fieldSchema(o, &f)})
		for also := range strings.FieldsSeq(f.tag.Get("also")) { // other names of the same key
			same := f
			same.name, same.doc = also, "The same as "+f.name+"."
			properties = append(properties, member{also, c.fieldSchema(o, &same)})
		}
	}
	for _, key := range config.ForeignKeys(o.name) {
		if slices.ContainsFunc(properties, func(m member) bool { return m.name == key }) {
			continue // a form of it is onecall's (addForm)
		}
		properties = append(properties, member{key, object{{"$ref", "#/$defs/foreign"}}})
	}
	schema := object{{"type", typeOrNull("object", orNull)}, {"additionalProperties", false}}
	if needed != nil {
		schema = append(schema, member{"required", needed})
	}
	return append(schema, member{"properties", properties})
}

// addForm adds a field that is read only if its value has certain keys: as a further form of the property with this name, which another
// field has or other programs write, or as a property.
func (c configSchemas) addForm(properties object, o *structType, f *field) object {
	form := c.fieldSchema(o, f)
	for i, known := range properties {
		if known.name == f.name {
			properties[i].value = object{{"anyOf", []any{known.value, form}}}
			return properties
		}
	}
	if slices.Contains(config.ForeignKeys(o.name), f.name) {
		form = object{{"anyOf", []any{form, object{{"$ref", "#/$defs/foreign"}}}}}
	}
	return append(properties, member{f.name, form})
}

// fieldSchema returns the schema of a field with its description and default.
func (c configSchemas) fieldSchema(o *structType, f *field) object {
	var schema object
	if f.doc != "" {
		schema = object{{"description", f.doc}}
	}
	if override := configFields[o.name+"."+f.tag.Get("yaml")]; override != "" {
		schema = append(schema, parseObject(override)...)
	} else {
		schema = append(schema, c.typeSchema(f)...)
	}
	if value, ok := f.tag.Lookup("default"); ok {
		if !json.Valid([]byte(value)) {
			value = fmt.Sprintf("%q", value)
		}
		schema = append(schema, member{"default", json.RawMessage(value)})
	}
	return schema
}

// typeSchema returns the schema of a field's values.
func (c configSchemas) typeSchema(f *field) object {
	if table, ok := strings.CutPrefix(f.goType, "Table["); ok {
		entryType := c.structs.mustGet(strings.TrimSuffix(table, "]"))
		entry := c.structSchema(entryType, f.tag.Get("entries") == "null") // the tag says that an entry may be null
		for _, f := range entryType.fields {
			switch f.doc = ""; {
			case f.tag.Get("list") != "": // a list is short for the struct
				entry = object{{"anyOf", []object{c.fieldSchema(entryType, &f), entry}}}
			case f.tag.Get("text") != "": // so is a text, which is one of some words
				entry = object{{"anyOf", []object{{{"enum", strings.Fields(f.rules()["oneof"])}}, entry}}}
			}
		}
		return object{{"type", typeOrNull("object", true)}, {"additionalProperties", entry}}
	}
	if inner, list := c.innerStruct(f); list && inner != nil {
		return object{{"type", "array"}, {"minItems", 1}, {"items", c.structSchema(inner, false)}}
	} else if inner != nil {
		return c.structSchema(inner, !hasRequired(inner))
	}
	rules, scalars := f.rules(), f.tag.Get("scalars") != ""
	if words := rules["oneof"]; words != "" {
		return object{{"enum", append(anySlice(strings.Fields(words)), nil)}}
	}
	switch f.goType {
	case "json.RawMessage":
		return nil
	case "string":
		return c.stringSchema(f, rules["min"] != "")
	case "[]string":
		return defRef("texts", "scalars", scalars)
	case "map[string]string":
		if !scalars {
			return parseObject(`{"type": ["object", "null"], "additionalProperties": {"type": "string"}}`)
		}
		return defRef("", "strings", scalars)
	case "Size":
		return defRef("size", "", false)
	case "time.Duration":
		return defRef("duration", "", false)
	}
	kind := map[string]string{"int": "integer", "float64": "number", "bool": "boolean"}[f.goType]
	if kind == "" {
		panic(fmt.Sprintf("%s: no schema is known for the type %s", f.name, f.goType))
	}
	schema := object{{"type", typeOrNull(kind, true)}}
	if minimum, ok := rules["min"]; ok {
		schema = append(schema, member{"minimum", json.RawMessage(minimum)})
	}
	if maximum, ok := rules["max"]; ok {
		schema = append(schema, member{"maximum", json.RawMessage(maximum)})
	}
	return schema
}

// stringSchema returns the schema of a string field. If nonEmpty is set, the string must not be empty.
func (c configSchemas) stringSchema(f *field, nonEmpty bool) object {
	switch {
	case f.tag.Get("needed") != "":
		return parseObject(`{"type": "string", "minLength": 1}`)
	case nonEmpty:
		return defRef("text", "", false)
	}
	return object{{"type", typeOrNull("string", true)}}
}

// hasRequired reports whether a struct has needed fields.
func hasRequired(o *structType) bool {
	for _, f := range o.fields {
		if f.tag.Get("needed") != "" {
			return true
		}
	}
	return false
}

// defRef returns a reference to a schema of $defs: name, or forScalars if scalars is set.
func defRef(name, forScalars string, scalars bool) object {
	if scalars {
		name = forScalars
	}
	return object{{"$ref", "#/$defs/" + name}}
}

// parseObject returns the members of a JSON object.
func parseObject(text string) (schema object) {
	gjson.Parse(text).ForEach(func(name, value gjson.Result) bool {
		schema = append(schema, member{name.Str, json.RawMessage(value.Raw)})
		return true
	})
	return schema
}

func typeOrNull(kind string, orNull bool) any {
	if orNull {
		return []string{kind, "null"}
	}
	return kind
}
