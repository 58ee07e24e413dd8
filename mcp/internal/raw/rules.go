package raw

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/tidwall/gjson"
)

// Rule returns the form of a member's value that strict clients accept; nil: there is none. Such clients refuse a whole list for one
// member of another type.
type Rule func(value gjson.Result) json.RawMessage

// Object returns a rule for objects: members with a rule are kept in its form, or dropped; others stay. An object that lacks one of
// required afterwards is refused.
func Object(rules map[string]Rule, required ...string) Rule {
	return func(value gjson.Result) json.RawMessage {
		if !value.IsObject() {
			return nil
		}
		missing := slices.Clone(required)
		out := []byte{'{'}
		value.ForEach(func(key, member gjson.Result) bool {
			kept := json.RawMessage(member.Raw)
			if rule := rules[key.Str]; rule != nil {
				kept = rule(member)
			}
			if kept == nil {
				return true
			}
			missing = slices.DeleteFunc(missing, func(name string) bool { return name == key.Str })
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(append(append(out, key.Raw...), ':'), kept...)
			return true
		})
		if len(missing) > 0 {
			return nil
		}
		return append(out, '}')
	}
}

// List returns a rule for arrays. Elements that its rule refuses are dropped.
func List(element Rule) Rule {
	return func(value gjson.Result) json.RawMessage {
		if !value.IsArray() {
			return nil
		}
		out := []byte{'['}
		for _, one := range value.Array() {
			if kept := element(one); kept != nil {
				if len(out) > 1 {
					out = append(out, ',')
				}
				out = append(out, kept...)
			}
		}
		return append(out, ']')
	}
}

// only returns a rule that keeps values as they are if ok accepts them.
func only(ok func(value gjson.Result) bool) Rule {
	return func(value gjson.Result) json.RawMessage {
		if !ok(value) {
			return nil
		}
		return json.RawMessage(value.Raw)
	}
}

// OneOf returns a rule for these words.
func OneOf(words ...string) Rule {
	return only(func(v gjson.Result) bool { return v.Type == gjson.String && slices.Contains(words, v.Str) })
}

// Rules for members of the items that servers list (MCP 2025-11-25).
var (
	Text   = only(func(v gjson.Result) bool { return v.Type == gjson.String })
	Flag   = only(gjson.Result.IsBool)
	Number = only(func(v gjson.Result) bool { return v.Type == gjson.Number })
	Meta   = Object(nil)

	Icons = List(Object(map[string]Rule{
		"src": Text, "mimeType": Text, "sizes": List(Text), "theme": OneOf("light", "dark"),
	}, "src"))
	ToolAnnotations = Object(map[string]Rule{
		"title": Text, "readOnlyHint": Flag, "destructiveHint": Flag, "idempotentHint": Flag, "openWorldHint": Flag,
	})

	resourceAnnotations = Object(map[string]Rule{
		"audience": List(OneOf("user", "assistant")),
		"priority": only(func(v gjson.Result) bool { return v.Type == gjson.Number && v.Num >= 0 && v.Num <= 1 }),
		"lastModified": only(func(v gjson.Result) bool {
			_, err := time.Parse(time.RFC3339, v.String())
			return err == nil
		}),
	})
	Resource = Object(map[string]Rule{
		"uri": Text, "name": Text, "title": Text, "description": Text, "mimeType": Text, "size": Number, "annotations": resourceAnnotations,
	}, "uri", "name")
	ResourceTemplate = Object(map[string]Rule{
		"uriTemplate": Text, "name": Text, "title": Text, "description": Text, "mimeType": Text, "annotations": resourceAnnotations,
	}, "uriTemplate", "name")
	Prompt = Object(map[string]Rule{
		"name": Text, "title": Text, "description": Text,
		"arguments": List(Object(map[string]Rule{"name": Text, "title": Text, "description": Text, "required": Flag}, "name")),
	}, "name")
)
