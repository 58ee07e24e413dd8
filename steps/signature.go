package steps

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// Bounds of a signature: its length in characters, the depth to which objects are written out, the values of an enum
// and the length of a default that are shown, and the schemas that are looked at.
const maxSignature, signatureDepth, maxEnum, maxDefault, maxNodes = 400, 3, 8, 24, 300

// signature writes a function's signature, as deep as its length allows: the result gives way before the arguments.
func signature(spec *Spec) string {
	in, out := writer{walker: newWalker(spec.Input)}, writer{walker: newWalker(spec.Output)}
	inDepth, outDepth := signatureDepth, signatureDepth
	for {
		text := spec.Name + in.arguments(inDepth, true) + out.result(outDepth)
		switch {
		case utf8.RuneCountInString(text) <= maxSignature:
			return text
		case outDepth > 0:
			outDepth--
		case inDepth > 0:
			inDepth--
		default:
			return cutArguments(spec.Name + in.arguments(0, false))
		}
	}
}

// cutArguments leaves out whole arguments from the end.
func cutArguments(text string) string {
	if utf8.RuneCountInString(text) <= maxSignature {
		return text
	}
	cut := strings.LastIndex(string([]rune(text)[:maxSignature-3]), ", ")
	if cut < 0 {
		return string([]rune(text)[:maxSignature-1]) + "…"
	}
	return text[:cut] + ", …)"
}

// writer writes schemas as types.
type writer struct {
	walker
	defaults bool
	nodes    int // looked at for this text
}

func (w *writer) arguments(depth int, defaults bool) string {
	if !w.root.Exists() {
		return "(…)"
	}
	w.defaults, w.nodes = defaults, 0
	return "(" + w.members(w.shape(w.root), depth) + ")"
}

func (w *writer) result(depth int) string {
	w.nodes = 0
	text := w.typeText(w.root, depth, 0)
	if text == "any" {
		return ""
	}
	return ": " + text
}

// shape is an object's members, those of its branches included.
type shape struct {
	names    []string
	members  map[string]gjson.Result
	required map[string]bool
	others   gjson.Result // additionalProperties, or the last of patternProperties
	visited  map[int]bool
}

func (w *writer) shape(schema gjson.Result) *shape {
	s := &shape{members: map[string]gjson.Result{}, required: map[string]bool{}, visited: map[int]bool{}}
	w.collect(s, schema, true)
	return s
}

// collect adds a schema's members. What only one of several alternatives requires is not required.
func (w *writer) collect(s *shape, schema gjson.Result, always bool) {
	schema = w.resolve(schema)
	if !schema.IsObject() || s.visited[schema.Index] {
		return
	}
	s.visited[schema.Index] = true
	for name, property := range each(child(schema, "properties")) {
		s.add(name.Str, property)
	}
	for _, name := range each(child(schema, "required")) {
		if always {
			s.required[name.Str] = true
		}
	}
	if others := child(schema, "additionalProperties"); others.IsObject() {
		s.others = others
	}
	for _, property := range each(child(schema, "patternProperties")) {
		s.others = property
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		for _, branch := range each(child(schema, keyword)) {
			w.collect(s, branch, always && keyword == "allOf")
		}
	}
}

func (s *shape) add(name string, member gjson.Result) {
	if _, twice := s.members[name]; !twice {
		s.names = append(s.names, name)
		s.members[name] = member
	}
}

// members writes the required ones first, then the others, each in the order of the schema.
func (w *writer) members(s *shape, depth int) string {
	var parts []string
	for _, required := range []bool{true, false} {
		for _, name := range s.names {
			if s.required[name] != required {
				continue
			}
			mark := "?"
			if required {
				mark = ""
			}
			part := key(name) + mark + ": " + w.typeText(s.members[name], depth, 0)
			if w.defaults && !required {
				part += w.defaultText(s.members[name])
			}
			parts = append(parts, part)
		}
	}
	if s.others.IsObject() && s.others.Raw != "{}" {
		parts = append(parts, "[key]: "+w.typeText(s.others, depth, 0))
	}
	return strings.Join(parts, ", ")
}

func (w *writer) defaultText(schema gjson.Result) string {
	value := child(w.resolve(schema), "default")
	if direct := child(schema, "default"); direct.Exists() {
		value = direct
	}
	if !value.Exists() || value.Type == gjson.Null || len(value.Raw) > maxDefault {
		return ""
	}
	return " = " + value.Raw
}

// key writes a member's name, quoted where it is no plain word.
func key(name string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-$"
	if name != "" && strings.Trim(name, plain) == "" {
		return name
	}
	return quote(name)
}

// typeText writes what values a schema allows. depth counts the objects that are written out; hops the branches since
// the last of them.
func (w *writer) typeText(schema gjson.Result, depth, hops int) string {
	return strings.Join(w.union(schema, depth, hops), "|")
}

// union lists the types that a schema allows, each once.
func (w *writer) union(schema gjson.Result, depth, hops int) []string {
	nullable := isNullable(schema)
	schema = w.resolve(schema)
	w.nodes++
	switch {
	case hops > maxReferences || w.nodes > maxNodes:
		return []string{"…"}
	case schema.Type == gjson.False:
		return []string{"never"}
	case !schema.IsObject():
		return []string{"any"}
	}
	if constant := child(schema, "const"); constant.Exists() {
		return []string{literal(constant)}
	}
	var all []string
	if values := elements(child(schema, "enum")); len(values) > 0 {
		all = enumTexts(values)
	} else {
		all = w.alternatives(schema, depth, hops)
	}
	if nullable || isNullable(schema) {
		all = append(all, "null")
	}
	if slices.Contains(all, "any") {
		return []string{"any"}
	}
	var once []string
	for _, text := range all {
		if !slices.Contains(once, text) {
			once = append(once, text)
		}
	}
	return once
}

func enumTexts(values []gjson.Result) []string {
	var texts []string
	for i, value := range values {
		if i == maxEnum {
			return append(texts, "…")
		}
		texts = append(texts, literal(value))
	}
	return texts
}

// alternatives are the members of the union that a schema without an enum stands for.
func (w *writer) alternatives(schema gjson.Result, depth, hops int) []string {
	declared := child(schema, "type").Array()
	for _, keyword := range []string{"anyOf", "oneOf"} {
		var union []string
		for _, branch := range elements(child(schema, keyword)) {
			union = append(union, w.union(branch, depth, hops+1)...)
		}
		// Branches that only tell which members must be given together add no type.
		if len(union) > 0 && !slices.Contains(union, "any") {
			return union
		}
	}
	if branches := elements(child(schema, "allOf")); len(branches) > 0 && len(declared) == 0 {
		if shape := w.shape(schema); len(shape.names) > 0 {
			return []string{w.object(schema, depth)}
		}
		for _, branch := range branches {
			if text := w.typeText(branch, depth, hops+1); text != "any" {
				return []string{text}
			}
		}
	}
	if len(declared) == 0 {
		switch {
		case child(schema, "properties").Exists() || child(schema, "additionalProperties").IsObject():
			return []string{w.object(schema, depth)}
		case child(schema, "items").Exists() || child(schema, "prefixItems").Exists():
			return []string{w.array(schema, depth, hops)}
		}
		return []string{"any"}
	}
	var union []string
	for _, name := range declared {
		switch name.Str {
		case "object":
			union = append(union, w.object(schema, depth))
		case "array":
			union = append(union, w.array(schema, depth, hops))
		case "string", "number", "integer", "boolean", "null":
			union = append(union, name.Str)
		default:
			union = append(union, "any")
		}
	}
	return union
}

func (w *writer) object(schema gjson.Result, depth int) string {
	shape := w.shape(schema)
	switch {
	case len(shape.names) == 0 && !shape.others.IsObject():
		return "object"
	case depth == 0:
		return "{…}"
	}
	return "{" + w.members(shape, depth-1) + "}"
}

func (w *writer) array(schema gjson.Result, depth, hops int) string {
	items, first := child(schema, "items"), child(schema, "prefixItems")
	if items.IsArray() {
		items, first = gjson.Result{}, items
	}
	if tuple := elements(first); len(tuple) > 0 {
		if depth == 0 {
			return "[…]"
		}
		var texts []string
		for i, item := range tuple {
			if i == maxEnum {
				texts = append(texts, "…")
				break
			}
			texts = append(texts, w.typeText(item, depth-1, 0))
		}
		if items.IsObject() {
			texts = append(texts, "..."+brackets(w.union(items, depth-1, 0)))
		}
		return "[" + strings.Join(texts, ", ") + "]"
	}
	return brackets(w.union(items, depth, hops+1))
}

// brackets makes an array's type of its elements'.
func brackets(union []string) string {
	if len(union) > 1 {
		return "(" + strings.Join(union, "|") + ")[]"
	}
	return union[0] + "[]"
}

func literal(value gjson.Result) string {
	if value.Type == gjson.String {
		return quote(value.Str)
	}
	if len(value.Raw) > maxDefault {
		return "…"
	}
	return value.Raw
}
