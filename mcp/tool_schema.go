package mcp

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/mcp/internal/raw"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// rootObject returns an input schema that clients accept: a plain object at its root, with items in every array. It drops
// alternatives at the root, which some model APIs refuse and for which some clients drop the tool; calls are checked against the
// whole schema anyway.
func rootObject(schema json.RawMessage) json.RawMessage {
	root := gjson.ParseBytes(schema)
	if !root.IsObject() {
		return json.RawMessage(`{"type":"object"}`)
	}
	plain := root.Get("type").String() == "object"
	for _, keyword := range combining {
		plain = plain && !root.Get(keyword).Exists()
	}
	if plain {
		return repairSchema(schema)
	}
	members := map[string]json.RawMessage{}
	properties := map[string]json.RawMessage{}
	collect(root, properties)
	root.ForEach(func(key, value gjson.Result) bool {
		if !slices.Contains(combining, key.Str) {
			members[key.Str] = json.RawMessage(value.Raw)
		}
		return true
	})
	members["type"] = json.RawMessage(`"object"`)
	if len(properties) > 0 {
		members["properties"] = marshal(properties)
	}
	return repairSchema(marshal(members))
}

var combining = []string{"oneOf", "anyOf", "allOf"}

// collect collects the properties of a schema and of its alternatives, at any depth. The first of the same name wins.
func collect(schema gjson.Result, into map[string]json.RawMessage) {
	schema.Get("properties").ForEach(func(key, value gjson.Result) bool {
		if into[key.Str] == nil {
			into[key.Str] = json.RawMessage(value.Raw)
		}
		return true
	})
	for _, keyword := range combining {
		schema.Get(keyword).ForEach(func(_, branch gjson.Result) bool {
			collect(branch, into)
			return true
		})
	}
}

// repairSchema changes what makes some clients refuse a list of tools: it adds missing items to arrays, drops dynamic references,
// which few clients know, and shortens long descriptions.
func repairSchema(written json.RawMessage) json.RawMessage {
	if len(written) <= schema.MaxDescription && !bytes.Contains(written, []byte(`"array"`)) && !bytes.Contains(written, []byte(`"$dynamic`)) {
		return written
	}
	return appendRepaired(nil, gjson.ParseBytes(written), 0)
}

// maxRepairDepth bounds the nesting of a repaired schema.
const maxRepairDepth = 200

// Keywords whose values are schemas or contain them. Values of other keywords, such as default, are data.
var (
	schemaKeywords = []string{
		"items", "additionalItems", "additionalProperties", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties", "not",
		"if", "then", "else",
		"oneOf", "anyOf", "allOf", "prefixItems",
	}
	schemaMaps = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)

// appendRepaired appends a schema, or an array of schemas, as repairSchema changes it.
func appendRepaired(out []byte, written gjson.Result, depth int) []byte {
	if depth > maxRepairDepth || !written.IsObject() && !written.IsArray() {
		return append(out, written.Raw...)
	}
	end, first := byte('}'), true
	if written.IsArray() {
		end = ']'
	}
	out = append(out, written.Raw[0])
	isArray, hasItems := false, false
	written.ForEach(func(key, value gjson.Result) bool {
		if key.Str == "$dynamicRef" || key.Str == "$dynamicAnchor" {
			return true
		}
		if !first {
			out = append(out, ',')
		}
		first = false
		switch {
		case end == ']': // an array of schemas
			out = appendRepaired(out, value, depth+1)
			return true
		case slices.Contains(schemaKeywords, key.Str):
			out = appendRepaired(append(append(out, key.Raw...), ':'), value, depth+1)
		case slices.Contains(schemaMaps, key.Str) && value.IsObject():
			out = append(append(out, key.Raw...), ':', '{')
			listed := false
			value.ForEach(func(name, one gjson.Result) bool {
				if listed {
					out = append(out, ',')
				}
				listed = true
				out = appendRepaired(append(append(out, name.Raw...), ':'), one, depth+1)
				return true
			})
			out = append(out, '}')
		case key.Str == "description" && len(value.Str) > schema.MaxDescription:
			out = append(append(append(out, key.Raw...), ':'), marshal(schema.BoundDescription(value.Str))...)
		default:
			out = append(append(append(out, key.Raw...), ':'), value.Raw...)
		}
		hasItems = hasItems || key.Str == "items"
		isArray = isArray || key.Str == "type" &&
			(value.Str == "array" || slices.ContainsFunc(value.Array(), func(one gjson.Result) bool { return one.Str == "array" }))
		return true
	})
	if isArray && !hasItems {
		out = append(out, `,"items":{}`...)
	}
	return append(out, end)
}

// withFetch adds the fields of a fetch to a schema that does not declare them.
func withFetch(schema json.RawMessage) json.RawMessage {
	properties := json.RawMessage(gjson.GetBytes(schema, "properties").Raw)
	declared := gjson.GetBytes(schemaOfTool("chain").InputSchema, "properties")
	for _, name := range fetchFields {
		if name == "budget" || name == "lite" || gjson.GetBytes(properties, gjson.Escape(name)).Exists() {
			continue
		}
		if field := declared.Get(name); field.Exists() {
			properties = raw.With(properties, name, json.RawMessage(field.Raw))
		}
	}
	return raw.With(schema, "properties", properties)
}
