package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/config"
)

// configSchema is the published schema of a configuration. Its structs are exported and have no comments by reflection, so their
// text is read; what no tag says is in configForms and configDefs.
func configSchema(source source) members {
	c := configSource{source}
	root := c.object(source.object("Config"), false)
	head := members{{"$schema", dialect}, {"title", "onecall configuration"}, {"description", "onecall.yaml or onecall.json. Every key is optional."}}
	return append(append(head, root...), member{"$defs", json.RawMessage(configDefs)})
}

// configForms are the schemas of fields of which the types and tags do not say all, by struct and key.
var configForms = map[string]string{
	"MCPServer.type":        `{"$ref": "#/$defs/transport"}`,
	"FS.write":              `{"type": ["array", "null"], "items": {"type": "string"}, "maxItems": 0}`,
	"Group.resources":       `{"type": "array", "items": {"type": "string"}, "minItems": 1}`,
	"Endpoint.query":        `{"type": ["object", "null"]}`,
	"Function.defaults":     `{"type": ["object", "null"]}`,
	"Bearer.functions":      `{"type": ["array", "null"], "items": {"type": "string", "minLength": 1}, "minItems": 1}`,
	"JWT.scopes":            `{"type": "object", "minProperties": 1, "additionalProperties": {"enum": ["read", "read_write", "admin"]}}`,
	"Ladder.rungs":          `{"type": ["array", "null"], "items": {"type": "string"}, "maxItems": 100}`,
	"Budget.maxTotalTokens": `{"type": ["integer", "null"], "anyOf": [{"const": 0}, {"minimum": 150}, {"type": "null"}]}`,
	"Results.store":         `{"anyOf": [{"enum": ["memory", "disk", null]}, {"type": "string", "pattern": "^(rediss?|unix)://|\\$\\{"}]}`,
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

// configSource is the structs of a configuration.
type configSource struct{ source }

// object is the schema of an object that has only the fields of a struct. A struct with needed fields is never null.
func (c configSource) object(o *object, orNull bool) members {
	var properties members
	var needed []string
	for _, f := range o.fields {
		if f.tag.Get("needed") != "" {
			needed = append(needed, f.name)
		}
		properties = append(properties, member{f.name, c.field(o, &f)})
		for also := range strings.FieldsSeq(f.tag.Get("also")) {
			same := f
			same.name, same.doc = also, "The same as "+f.name+"."
			properties = append(properties, member{also, c.field(o, &same)})
		}
	}
	for _, key := range config.ForeignKeys(o.name) {
		properties = append(properties, member{key, members{{"$ref", "#/$defs/foreign"}}})
	}
	schema := members{{"type", orNullType("object", orNull)}, {"additionalProperties", false}}
	if needed != nil {
		schema = append(schema, member{"required", needed})
	}
	return append(schema, member{"properties", properties})
}

// field is the schema of a field with its description and default.
func (c configSource) field(o *object, f *field) members {
	var schema members
	if f.doc != "" {
		schema = members{{"description", f.doc}}
	}
	if form := configForms[o.name+"."+f.tag.Get("yaml")]; form != "" {
		schema = append(schema, raw(form)...)
	} else {
		schema = append(schema, c.value(f)...)
	}
	if standard, ok := f.tag.Lookup("default"); ok {
		if !json.Valid([]byte(standard)) {
			standard = fmt.Sprintf("%q", standard)
		}
		schema = append(schema, member{"default", json.RawMessage(standard)})
	}
	return schema
}

// value is what a field may hold.
func (c configSource) value(f *field) members {
	if named, ok := strings.CutPrefix(f.of, "Table["); ok {
		held := c.source.object(strings.TrimSuffix(named, "]"))
		entry := c.object(held, f.tag.Get("entries") == "null")
		for _, one := range held.fields {
			if one.tag.Get("list") != "" { // a list stands for the struct
				one.doc = ""
				entry = members{{"anyOf", []members{c.field(held, &one), entry}}}
			}
		}
		return members{{"type", orNullType("object", true)}, {"additionalProperties", entry}}
	}
	if held, list := c.inner(f); list && held != nil {
		return members{{"type", "array"}, {"minItems", 1}, {"items", c.object(held, false)}}
	} else if held != nil {
		return c.object(held, !needs(held))
	}
	rules, scalars := f.rules(), f.tag.Get("scalars") != ""
	if words := rules["oneof"]; words != "" {
		return members{{"enum", append(anyOf(strings.Fields(words)), nil)}}
	}
	switch f.of {
	case "json.RawMessage":
		return nil
	case "string":
		return c.text(f, rules["min"] != "")
	case "[]string":
		return reference("texts", "scalars", scalars)
	case "map[string]string":
		if !scalars {
			return raw(`{"type": ["object", "null"], "additionalProperties": {"type": "string"}}`)
		}
		return reference("", "strings", scalars)
	case "Size":
		return reference("size", "", false)
	case "time.Duration":
		return reference("duration", "", false)
	}
	kind := map[string]string{"int": "integer", "float64": "number", "bool": "boolean"}[f.of]
	if kind == "" {
		panic(fmt.Sprintf("%s: no schema is known for the type %s", f.name, f.of))
	}
	schema := members{{"type", orNullType(kind, true)}}
	if least, ok := rules["min"]; ok {
		schema = append(schema, member{"minimum", json.RawMessage(least)})
	}
	if most, ok := rules["max"]; ok {
		schema = append(schema, member{"maximum", json.RawMessage(most)})
	}
	return schema
}

// text is the schema of a string, which is not empty if its tag says so.
func (c configSource) text(f *field, filled bool) members {
	switch {
	case f.tag.Get("needed") != "":
		return raw(`{"type": "string", "minLength": 1}`)
	case filled:
		return reference("text", "", false)
	}
	return members{{"type", orNullType("string", true)}}
}

// needs reports whether a struct has needed fields.
func needs(o *object) bool {
	for _, f := range o.fields {
		if f.tag.Get("needed") != "" {
			return true
		}
	}
	return false
}

// reference refers to a schema of $defs, or to another one for scalars.
func reference(name, forScalars string, scalars bool) members {
	if scalars {
		name = forScalars
	}
	return members{{"$ref", "#/$defs/" + name}}
}

// raw is the text of a schema as members.
func raw(text string) (schema members) {
	gjson.Parse(text).ForEach(func(name, value gjson.Result) bool {
		schema = append(schema, member{name.Str, json.RawMessage(value.Raw)})
		return true
	})
	return schema
}

func orNullType(kind string, orNull bool) any {
	if orNull {
		return []string{kind, "null"}
	}
	return kind
}
