package mcp

import (
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/mcp/internal/raw"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// rootObject returns an input schema that clients accept: portable, with a plain object at its root. It drops alternatives at the
// root, which some model APIs refuse and for which some clients drop the tool; calls are checked against the whole schema anyway.
func rootObject(written json.RawMessage) json.RawMessage {
	root := gjson.ParseBytes(written)
	if !root.IsObject() {
		return json.RawMessage(`{"type":"object"}`)
	}
	plain := root.Get("type").String() == "object"
	for _, keyword := range combining {
		plain = plain && !root.Get(keyword).Exists()
	}
	if plain {
		return schema.Portable(written)
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
	return schema.Portable(marshal(members))
}

var combining = []string{"oneOf", "anyOf", "allOf"}

// collect collects the properties of a schema and of its alternatives, at any depth. The first of the same name wins.
func collect(schema gjson.Result, into map[string]json.RawMessage) {
	if properties := schema.Get("properties"); properties.IsObject() {
		properties.ForEach(func(key, value gjson.Result) bool {
			if into[key.Str] == nil {
				into[key.Str] = json.RawMessage(value.Raw)
			}
			return true
		})
	}
	for _, keyword := range combining {
		for _, branch := range schema.Get(keyword).Array() {
			if branch.IsObject() {
				collect(branch, into)
			}
		}
	}
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
