package schema

import (
	"bytes"
	"iter"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// typeSet is a set of JSON Schema types. "number" includes "integer".
type typeSet uint8

const (
	typeNull typeSet = 1 << iota
	typeBoolean
	typeInteger
	typeFraction
	typeString
	typeArray
	typeObject
	noType  typeSet = 0
	anyType         = typeNull | typeBoolean | typeInteger | typeFraction | typeString | typeArray | typeObject
)

var typeSets = map[string]typeSet{"null": typeNull, "boolean": typeBoolean, "integer": typeInteger,
	"number": typeInteger | typeFraction, "string": typeString, "array": typeArray, "object": typeObject}

// names returns the names of the types; nil for any type.
func (t typeSet) names() []string {
	if t == anyType {
		return nil
	}
	var names []string
	for _, name := range []string{"array", "boolean", "number", "integer", "null", "object", "string"} {
		if set := typeSets[name]; t&set == set {
			names = append(names, name)
			t &^= set
		}
	}
	return names
}

// typeSetOf returns the set of these types; any type for an empty list, and for one with an unknown name.
func typeSetOf(names []string) typeSet {
	set := noType
	for _, name := range names {
		types, ok := typeSets[name]
		if !ok {
			return anyType
		}
		set |= types
	}
	if set == noType {
		return anyType
	}
	return set
}

// walker reads a schema from its bytes, and thus in the order of its members.
type walker struct {
	root    gjson.Result
	targets map[string]gjson.Result            // targets of references
	defined map[string]map[string]gjson.Result // members of the root's objects of definitions, such as $defs
	inner   []span                             // inner schemas with their own ids: references in them are relative to the id
}

// span is the position of a value in a text.
type span struct{ start, end int }

func newWalker(schema []byte) walker {
	return walker{root: gjson.ParseBytes(schema), targets: map[string]gjson.Result{}, inner: innerSchemas(schema)}
}

// innerSchemas finds the objects of a compact schema, except the root, with an id that is more than an anchor. The keyword is id in drafts
// 3 and 4, else $id.
func innerSchemas(schema []byte) []span {
	keyword := []byte(`"$id":"`)
	dialect := gjson.GetBytes(schema, "$schema").Str
	if strings.Contains(dialect, "draft-03") || strings.Contains(dialect, "draft-04") {
		keyword = []byte(`"id":"`)
	}
	if !bytes.Contains(schema, keyword) {
		return nil
	}
	var inner []span
	type object struct {
		start int
		id    bool
	}
	var open []object
	for i := 0; i < len(schema); i++ {
		switch schema[i] {
		case '"':
			if id, ok := bytes.CutPrefix(schema[i:], keyword); ok && id[0] != '#' && id[0] != '"' {
				open[len(open)-1].id = true
			}
			i = rawjson.StringEnd(schema, i) - 1
		case '{', '[':
			open = append(open, object{start: i})
		case '}', ']':
			last := open[len(open)-1]
			if open = open[:len(open)-1]; last.id && len(open) > 0 {
				inner = append(inner, span{last.start, i})
			}
		}
	}
	return inner
}

// inInner reports whether a schema is part of an inner schema with its own id.
func (w *walker) inInner(at gjson.Result) bool {
	return slices.ContainsFunc(w.inner, func(s span) bool { return s.start <= at.Index && at.Index < s.end })
}

// maxReferences bounds a chain of references to references.
const maxReferences = 32

// child returns a member of an object or an element of an array; nothing if there is none.
func child(at gjson.Result, key string) gjson.Result {
	position := 0
	for k, v := range each(at) {
		if k.Type == gjson.String && k.Str == key || k.Type != gjson.String && strconv.Itoa(position) == key {
			return v
		}
		position++
	}
	return gjson.Result{}
}

// each yields the members of an object or the elements of an array, with their positions in the text.
func each(at gjson.Result) iter.Seq2[gjson.Result, gjson.Result] {
	return func(yield func(k, v gjson.Result) bool) {
		if at.IsObject() || at.IsArray() {
			at.ForEach(yield)
		}
	}
}

// elements returns an array's elements; none for other values.
func elements(at gjson.Result) []gjson.Result {
	if !at.IsArray() {
		return nil
	}
	var list []gjson.Result
	for _, element := range each(at) {
		list = append(list, element)
	}
	return list
}

// resolve follows $ref within the document. For a reference that it cannot follow it returns nothing, which allows anything.
func (w *walker) resolve(at gjson.Result) gjson.Result {
	for range maxReferences {
		reference := child(at, "$ref")
		if reference.Type != gjson.String {
			return at
		}
		if w.inInner(at) {
			return gjson.Result{}
		}
		target, known := w.targets[reference.Str]
		if !known {
			target = w.target(reference.Str)
			w.targets[reference.Str] = target
		}
		at = target
	}
	return gjson.Result{}
}

// target returns the target of a reference within the document.
func (w *walker) target(reference string) gjson.Result {
	fragment, ok := strings.CutPrefix(reference, "#")
	if !ok || fragment != "" && fragment[0] != '/' {
		return gjson.Result{}
	}
	path, at := splitPointer(unescapeFragment(fragment)), w.root
	if len(path) > 1 {
		at, path = w.definition(path[0], path[1]), path[2:]
	}
	for _, token := range path {
		at = child(at, token)
	}
	return at
}

// definition returns a member of an object in the root. It reads the object once for all references into it.
func (w *walker) definition(container, name string) gjson.Result {
	members, known := w.defined[container]
	if !known {
		members = map[string]gjson.Result{}
		position := 0
		for k, v := range each(child(w.root, container)) {
			key := k.Str
			if k.Type != gjson.String {
				key = strconv.Itoa(position)
			}
			if _, twice := members[key]; !twice {
				members[key] = v
			}
			position++
		}
		if w.defined == nil {
			w.defined = map[string]map[string]gjson.Result{}
		}
		w.defined[container] = members
	}
	return members[name]
}

// unescapeFragment undoes the percent-encoding of a reference's fragment; an invalid encoding stays as it is.
func unescapeFragment(fragment string) string {
	if text, err := url.PathUnescape(fragment); err == nil {
		return text
	}
	return fragment
}

var tokenUnescape = strings.NewReplacer("~1", "/", "~0", "~")

// splitPointer returns the unescaped tokens of a JSON Pointer (RFC 6901).
func splitPointer(pointer string) []string {
	if pointer == "" {
		return nil
	}
	segments := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i := range segments {
		segments[i] = tokenUnescape.Replace(segments[i])
	}
	return segments
}

func isNullable(schema gjson.Result) bool {
	return child(schema, "nullable").Type == gjson.True || child(schema, "x-nullable").Type == gjson.True
}

// localTypes returns the types that type, enum, const and nullable allow.
func localTypes(schema gjson.Result) typeSet {
	types := anyType
	if declared := child(schema, "type"); declared.Exists() {
		var names []string
		for _, name := range declared.Array() {
			names = append(names, name.Str)
		}
		types = typeSetOf(names)
		if isNullable(schema) {
			types |= typeNull
		}
	}
	values := elements(child(schema, "enum"))
	if constant := child(schema, "const"); constant.Exists() {
		values = []gjson.Result{constant}
	}
	if len(values) == 0 {
		return types
	}
	valueTypes := noType
	for _, value := range values {
		valueTypes |= typeOf(value)
	}
	if isNullable(schema) {
		valueTypes |= typeNull
	}
	return types & valueTypes
}

func typeOf(value gjson.Result) typeSet {
	switch {
	case value.IsObject():
		return typeObject
	case value.IsArray():
		return typeArray
	}
	switch value.Type {
	case gjson.Null:
		return typeNull
	case gjson.True, gjson.False:
		return typeBoolean
	case gjson.String:
		return typeString
	}
	return typeInteger | typeFraction
}
