package lock

import (
	"bytes"
	"encoding/json"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"
)

// node is a schema that was resolved: an object of keywords.
type node map[string]any

// never accepts nothing.
var never = node{"enum": []any{}}

// document is a schema with what its references name.
type document struct {
	root any
	text string // all of it, to compare what is not worked out and refers to other parts
	defs string // the definitions alone
}

func parse(schema []byte) *document {
	d := &document{root: true}
	if len(schema) == 0 {
		return d
	}
	decoder := json.NewDecoder(bytes.NewReader(schema))
	decoder.UseNumber()
	if decoder.Decode(&d.root) != nil {
		d.root = true
	}
	d.text = string(schema)
	if root, ok := d.root.(map[string]any); ok {
		d.defs = textOf([]any{root["$defs"], root["definitions"], root["components"]})
	}
	return d
}

// maxHops bounds a chain of references.
const maxHops = 32

// resolve follows references, and returns the last of them; "": there was none. Members beside a reference, or beside the only schema of an
// allOf, are added to those of its target.
func (d *document) resolve(schema any) (n node, ref string) {
	for range maxHops {
		object, ok := schema.(map[string]any)
		if !ok {
			if schema == false {
				return never, ref
			}
			return node{}, ref
		}
		to, isRef := object["$ref"].(string)
		all, _ := object["allOf"].([]any)
		switch {
		case isRef && strings.HasPrefix(to, "#"):
			target, found := d.lookUp(to)
			both, clear := merged(target, object, "$ref")
			if !found || !clear {
				return node(object), ref
			}
			ref, schema = to, both
		case len(all) == 1:
			both, clear := merged(all[0], object, "allOf")
			if !clear {
				return node(object), ref
			}
			schema = both
		default:
			return node(object), ref
		}
	}
	return node{}, ref
}

// merged returns a schema with the members that stand beside the keyword that led to it; false: both say something by the same keyword.
func merged(target any, beside map[string]any, without string) (any, bool) {
	to, ok := target.(map[string]any)
	if !ok || len(beside) == 1 {
		return target, ok || len(beside) == 1
	}
	both := map[string]any{}
	for key, value := range to {
		both[key] = value
	}
	for key, value := range beside {
		if key == without || annotation(key) {
			continue
		}
		if _, twice := to[key]; twice {
			return nil, false
		}
		both[key] = value
	}
	return both, true
}

// lookUp returns what a reference within the document names.
func (d *document) lookUp(ref string) (any, bool) {
	at := d.root
	for _, token := range strings.Split(strings.TrimPrefix(ref, "#"), "/")[1:] {
		object, ok := at.(map[string]any)
		if !ok {
			return nil, false
		}
		if at, ok = object[strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")]; !ok {
			return nil, false
		}
	}
	return at, true
}

// annotation reports whether a keyword says nothing of which values are accepted. A format is one: nobody checks it.
func annotation(key string) bool {
	switch key {
	case "title", "description", "default", "examples", "example", "format", "deprecated", "readOnly", "writeOnly", "$schema", "$id",
		"id", "$comment", "$defs", "definitions", "$anchor", "contentEncoding", "contentMediaType", "discriminator", "xml", "externalDocs",
		"components":
		return true
	}
	return strings.HasPrefix(key, "x-")
}

// alternatives returns the schemas of which a value must fit one; nil: there is only this one.
func (n node) alternatives() []any {
	var list []any
	for key, value := range n {
		switch {
		case key == "anyOf" || key == "oneOf":
			branches, _ := value.([]any)
			if list != nil || len(branches) == 0 {
				return nil
			}
			list = branches
		case !annotation(key) && key != "type" && key != "nullable":
			return nil // it says more than the alternatives do, and is compared as it is
		}
	}
	if list != nil && n["nullable"] == true {
		list = append(slices.Clip(list), map[string]any{"type": "null"})
	}
	return list
}

// parts returns the schema as alternatives: one for each of its types or of its words, if it has several.
func (n node) parts() []any {
	if list := n.alternatives(); list != nil {
		return list
	}
	var list []any
	part := func(key string, value any) {
		one := map[string]any{}
		for k, v := range n {
			if k != "nullable" {
				one[k] = v
			}
		}
		one[key] = value
		list = append(list, one)
	}
	if values, limited := n.values(); limited && len(values) > 1 {
		for _, value := range values {
			part("enum", []any{value})
		}
		return list
	}
	if types, known := n.types(); known && len(types) > 1 {
		for _, name := range types {
			part("type", name)
		}
		return list
	}
	return []any{map[string]any(n)}
}

// allTypes are the types of values.
var allTypes = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// types returns the types of the values that a schema accepts, sorted; known: it says so.
func (n node) types() (types []string, known bool) {
	switch given := n["type"].(type) {
	case string:
		types = append(types, given)
	case []any:
		for _, one := range given {
			if name, ok := one.(string); ok {
				types = append(types, name)
			}
		}
	}
	if types == nil {
		values, limited := n.values()
		if !limited {
			return allTypes, false
		}
		for _, value := range values {
			types = append(types, typeOf(value))
		}
	} else if n["nullable"] == true {
		types = append(types, "null")
	}
	slices.Sort(types)
	return slices.Compact(types), true
}

func typeOf(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		if strings.ContainsAny(string(value), ".eE") {
			return "number"
		}
		return "integer"
	case []any:
		return "array"
	}
	return "object"
}

// values returns the values of enum or const; limited: there is one of them.
func (n node) values() (values []any, limited bool) {
	if list, ok := n["enum"].([]any); ok {
		return list, true
	}
	if value, ok := n["const"]; ok {
		return []any{value}, true
	}
	return nil, false
}

// properties returns the declared members of an object.
func (n node) properties() map[string]any {
	properties, _ := n["properties"].(map[string]any)
	return properties
}

// required returns the names of the members that an object must have.
func (n node) required() (names []string) {
	list, _ := n["required"].([]any)
	for _, one := range list {
		if name, ok := one.(string); ok {
			names = append(names, name)
		}
	}
	return names
}

// textOf returns a decoded value as JSON with sorted keys.
func textOf(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return string(text)
}

// bound returns the strictest bound of numbers that a schema has on one side, and whether the bound itself is left out; nil: there is none.
// In drafts before 6, the second keyword is a boolean beside the first.
func (n node) bound(keys [2]string, sign int) (limit *big.Rat, open bool) {
	if given, ok := number(n[keys[0]]); ok {
		limit, open = given, n[keys[1]] == true
	}
	if given, ok := number(n[keys[1]]); ok && (limit == nil || given.Cmp(limit)*sign >= 0) {
		limit, open = given, true
	}
	return limit, open
}

// numbers returns the numbers among the values that a schema lists; nil: it lists none.
func (n node) numbers() (list []*big.Rat) {
	values, _ := n.values()
	for _, value := range values {
		if one, ok := number(value); ok {
			list = append(list, one)
		}
	}
	return list
}

// sizes returns the sizes of the values of a type that a schema lists; nil: it lists none.
func (n node) sizes(of string) (list []*big.Rat) {
	values, _ := n.values()
	for _, value := range values {
		switch value := value.(type) {
		case string:
			if of == "string" {
				list = append(list, big.NewRat(int64(utf8.RuneCountInString(value)), 1))
			}
		case []any:
			if of == "array" {
				list = append(list, big.NewRat(int64(len(value)), 1))
			}
		case map[string]any:
			if of == "object" {
				list = append(list, big.NewRat(int64(len(value)), 1))
			}
		}
	}
	return list
}
