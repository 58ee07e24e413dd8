package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// schemaReference returns the page of a published schema: a table of its members, and one for each object in its $defs. Members of
// members have dotted names; * stands for any name and [] for any element.
func schemaReference(title, intro string, text []byte) []byte {
	p := &page{root: gjson.ParseBytes(text)}
	fmt.Fprintf(&p.b, "# %s\n\n%s\n", title, intro)
	if p.root.Get("properties").Exists() {
		p.b.WriteString("\n" + tableHead)
		p.members("", p.root)
	}
	p.root.Get("$defs").ForEach(func(name, def gjson.Result) bool {
		if def.Get("properties").Exists() {
			fmt.Fprintf(&p.b, "\n## %s\n\n", name.Str)
			if description := def.Get("description").Str; description != "" {
				p.b.WriteString(description + "\n\n")
			}
			p.b.WriteString(tableHead)
			p.members("", def)
		}
		return true
	})
	return []byte(p.b.String())
}

const tableHead = "| key | value | default | meaning |\n|---|---|---|---|\n"

// page is the page of a schema while it is written.
type page struct {
	root gjson.Result
	b    strings.Builder
}

// members writes the rows of an object's members and of their members.
func (p *page) members(under string, schema gjson.Result) {
	schema.Get("properties").ForEach(func(name, property gjson.Result) bool {
		if property.Get("$ref").Str == "#/$defs/foreign" {
			return true
		}
		required := slices.ContainsFunc(schema.Get("required").Array(), func(one gjson.Result) bool { return one.Str == name.Str })
		p.row(under+name.Str, property, required)
		p.nestedMembers(under+name.Str, property)
		return true
	})
}

// nestedMembers writes the rows of the objects in a value: itself, its elements and its alternatives.
func (p *page) nestedMembers(name string, schema gjson.Result) {
	if schema.Get("properties").Exists() {
		p.members(name+".", schema)
	}
	if values := schema.Get("additionalProperties"); values.IsObject() {
		p.nestedMembers(name+".*", values)
	}
	if items := schema.Get("items"); items.Exists() {
		p.nestedMembers(name+"[]", items)
	}
	for _, form := range schema.Get("anyOf").Array() {
		p.nestedMembers(name, form)
	}
}

func (p *page) row(name string, schema gjson.Result, required bool) {
	value, defaultText := p.value(schema), ""
	if required {
		value = strings.TrimPrefix(value+", required", ", ")
	}
	if d := schema.Get("default"); d.Exists() && d.Raw != "[]" && d.Raw != "{}" {
		defaultText = "`" + d.String() + "`"
	}
	description := strings.ReplaceAll(schema.Get("description").Str, "|", `\|`)
	fmt.Fprintf(&p.b, "| `%s` | %s | %s | %s |\n", name, value, defaultText, description)
}

// value describes the values that a schema allows. null is left out: it always means that the key is absent.
func (p *page) value(schema gjson.Result) string {
	if ref, ok := strings.CutPrefix(schema.Get("$ref").Str, "#/$defs/"); ok {
		def := p.root.Get("$defs").Get(gjson.Escape(ref))
		if def.Get("properties").Exists() {
			return fmt.Sprintf("[%s](#%s)", ref, strings.ToLower(ref))
		}
		switch ref {
		case "code":
			return "[a code](codes.md)"
		case "size", "duration":
			return ref
		}
		return p.value(def)
	}
	if constant := schema.Get("const"); constant.Exists() {
		return "`" + constant.String() + "`"
	}
	var phrases []string
	for _, word := range schema.Get("enum").Array() {
		if word.Type != gjson.Null {
			phrases = append(phrases, "`"+word.String()+"`")
		}
	}
	for _, kind := range schema.Get("type").Array() {
		if kind.Str != "null" {
			phrases = append(phrases, kinds[kind.Str])
		}
	}
	if items := schema.Get("items"); items.Exists() && slices.Contains(phrases, kinds["array"]) {
		if elements := p.value(items); elements != "" {
			phrases = append(phrases, "of "+elements)
		}
	}
	if maxLength := schema.Get("maxLength"); maxLength.Exists() {
		phrases = append(phrases, "at most "+maxLength.Raw+" characters")
	}
	switch minimum, maximum := schema.Get("minimum"), schema.Get("maximum"); {
	case minimum.Exists() && maximum.Exists():
		phrases = append(phrases, minimum.Raw+" to "+maximum.Raw)
	case minimum.Exists():
		phrases = append(phrases, "from "+minimum.Raw)
	}
	// A schema that says nothing but a description allows any value.
	if !slices.ContainsFunc(schema.Get("@keys").Array(), func(key gjson.Result) bool { return key.Str != "description" }) {
		phrases = append(phrases, "anything")
	}
	return strings.ReplaceAll(strings.Join(phrases, ", "), ", of ", " of ")
}

// kinds are the types of JSON Schema in words.
var kinds = map[string]string{
	"string": "text", "integer": "whole number", "number": "number", "boolean": "boolean", "object": "object", "array": "list",
}
