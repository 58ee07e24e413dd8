package schema

import (
	"slices"
	"sort"

	"github.com/tidwall/gjson"
)

// Bounds of a type: the shown values of an enum, the length of a shown default, the schemas visited for one line and for an outline,
// and the attempts at objects that are too long for a line.
const maxEnum, maxDefault, maxNodes, maxOutlineNodes, maxMisses = 8, 24, 300, 3000, 6

// typeText formats a JSON Schema as a type in the style of TypeScript, on one line:
//
//	{count: integer, files: {path: string, matches: {line, text}[]}[]}
//
// It adds the names of members, breadth first, then their types, as far as limit bytes allow; "…" replaces the rest. Only
// the shortest form may be longer than limit. A schema that allows anything, or is not JSON, gives "".
func typeText(schema []byte, limit int) string { return newTypeWriter(schema, maxNodes).line(limit) }

// Outline formats a JSON Schema as a type with one member a line, followed by its description. It is complete, except for
// recursive objects and the deepest levels of a very large schema. A schema that allows anything gives "any".
func Outline(schema []byte) string {
	w := newTypeWriter(schema, maxOutlineNodes)
	w.fill(func() bool { return true })
	return printer{lines: true, defaults: true}.union(w.rootType, true, "")
}

// union is the types that a schema allows.
type union []alternative

// alternative is one type of a union: a text, an object or an array.
type alternative struct {
	text   string
	object *object
	array  *array
}

// array is the type of an array. first holds the types of a tuple's elements, rest the type of all further elements; nil: there are none.
type array struct {
	first []union
	rest  union
}

// object is the type of an object. Its members are known once it is loaded, and shown once it is open.
type object struct {
	schema      gjson.Result
	parent      *object // the object that contains it; nil: the root
	depth       int
	members     []property
	loaded      bool
	open, typed bool // typed: the types of its members are shown, too
	shown       int  // members shown of an open object; "…" replaces the rest
}

type property struct {
	name        string // the name as written
	required    bool
	union       union
	defaultText string // " = " and the default; "" if there is none, or it is too long
	comment     string // its shortened description
}

// typeWriter builds types from schemas.
type typeWriter struct {
	walker
	rootType     union                           // the root's type
	objects      []*object                       // all objects, breadth first
	nodes        int                             // how many schemas may still be visited
	keywordCache map[int]map[string]gjson.Result // the keywords of schemas, by position
}

func newTypeWriter(schema []byte, nodes int) *typeWriter {
	w := &typeWriter{walker: newWalker(schema), nodes: nodes, keywordCache: map[int]map[string]gjson.Result{}}
	w.rootType = w.union(w.root, nil, 0)
	return w
}

// keywords returns a schema's own keywords and caches them.
func (w *typeWriter) keywords(schema gjson.Result) map[string]gjson.Result {
	keywords, ok := w.keywordCache[schema.Index]
	if !ok {
		keywords = map[string]gjson.Result{}
		for name, value := range each(schema) {
			if _, twice := keywords[name.Str]; !twice {
				keywords[name.Str] = value
			}
		}
		w.keywordCache[schema.Index] = keywords
	}
	return keywords
}

// resolve is walker.resolve with the keyword cache.
func (w *typeWriter) resolve(schema gjson.Result) gjson.Result {
	if w.keywords(schema)["$ref"].Type != gjson.String {
		return schema
	}
	return w.walker.resolve(schema)
}

// line formats the type on one line.
func (w *typeWriter) line(limit int) string {
	for _, o := range w.objects {
		o.open, o.typed = false, false
	}
	text := printer{}.union(w.rootType, true, "")
	if text == "any" {
		return ""
	}
	w.fill(func() bool {
		longer := printer{}.union(w.rootType, true, "")
		withinLimit := cost(longer) <= limit
		if withinLimit {
			text = longer
		}
		return withinLimit
	})
	return text
}

// fill opens objects, breadth first, while the text fits: first with the names of their members, then with their types. If the first object
// does not fit, it shows as many names as fit.
func (w *typeWriter) fill(within func() bool) {
	misses := 0
	for i := 0; i < len(w.objects) && misses < maxMisses; i++ {
		o := w.objects[i]
		if o.parent != nil && !o.parent.open || o.isRecursive() {
			continue
		}
		w.load(o)
		if o.open, o.shown = true, len(o.members); within() {
			continue
		}
		misses++
		if o.open = i == 0; o.open { // only the first object may be shown in part
			o.shown = sort.Search(len(o.members), func(n int) bool {
				o.shown = n
				return n > 0 && !within()
			}) - 1
			o.open = o.shown > 0
		}
	}
	for i := 0; i < len(w.objects) && misses < 2*maxMisses; i++ {
		if o := w.objects[i]; o.open && o.shown == len(o.members) {
			if o.typed = true; !within() {
				o.typed = false
				misses++
			}
		}
	}
}

// deepen opens all objects down to a depth, with types.
func (w *typeWriter) deepen(depth int) {
	for i := 0; i < len(w.objects); i++ {
		o := w.objects[i]
		if o.open = o.depth <= depth; o.open {
			w.load(o)
			o.typed, o.shown = true, len(o.members)
		}
	}
}

// isRecursive reports whether an object is contained, at any depth, in an object with the same schema.
func (o *object) isRecursive() bool {
	for ancestor := o.parent; ancestor != nil; ancestor = ancestor.parent {
		if ancestor.schema.Index == o.schema.Index {
			return true
		}
	}
	return false
}

// load reads an object's members: first the required ones, then the others, each in the order of the schema.
func (w *typeWriter) load(o *object) {
	if o.loaded {
		return
	}
	o.loaded = true
	s := w.members(o.schema)
	for _, required := range []bool{true, false} {
		for _, name := range s.names {
			if s.required[name] != required {
				continue
			}
			schema := s.members[name]
			m := property{name: memberName(name), required: required, union: w.union(schema, o, 0),
				comment: Summary(w.keywordOf(schema, "description").Str)}
			if !required {
				m.defaultText = defaultText(w.keywordOf(schema, "default"))
			}
			o.members = append(o.members, m)
		}
	}
	if s.others.IsObject() && s.others.Raw != "{}" {
		o.members = append(o.members, property{name: "[key]", required: true, union: w.union(s.others, o, 0)})
	}
}

// keywordOf returns a keyword of a schema, or of the schema to which it refers.
func (w *typeWriter) keywordOf(schema gjson.Result, keyword string) gjson.Result {
	if value := w.keywords(schema)[keyword]; value.Exists() {
		return value
	}
	return w.keywords(w.resolve(schema))[keyword]
}

// defaultText returns " = " and the default; "" if there is none, or it is null or too long.
func defaultText(value gjson.Result) string {
	if !value.Exists() || value.Type == gjson.Null || len(value.Raw) > maxDefault {
		return ""
	}
	return " = " + value.Raw
}

// memberSet holds an object's members, including those of its branches.
type memberSet struct {
	names    []string
	members  map[string]gjson.Result
	required map[string]bool
	others   gjson.Result // additionalProperties, or the last of patternProperties
	visited  map[int]bool
}

func (w *typeWriter) members(schema gjson.Result) *memberSet {
	s := &memberSet{members: map[string]gjson.Result{}, required: map[string]bool{}, visited: map[int]bool{}}
	w.collect(s, schema, true)
	return s
}

// collect adds a schema's members. A member that only one of several alternatives requires is not required.
func (w *typeWriter) collect(s *memberSet, schema gjson.Result, always bool) {
	schema = w.resolve(schema)
	if !schema.IsObject() || s.visited[schema.Index] {
		return
	}
	s.visited[schema.Index] = true
	for name, property := range each(w.keywords(schema)["properties"]) {
		if _, twice := s.members[name.Str]; !twice {
			s.names = append(s.names, name.Str)
			s.members[name.Str] = property
		}
	}
	for _, name := range each(w.keywords(schema)["required"]) {
		if always {
			s.required[name.Str] = true
		}
	}
	if others := w.keywords(schema)["additionalProperties"]; others.IsObject() {
		s.others = others
	}
	for _, property := range each(w.keywords(schema)["patternProperties"]) {
		s.others = property
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		for _, branch := range each(w.keywords(schema)[keyword]) {
			w.collect(s, branch, always && keyword == "allOf")
		}
	}
}

// union returns the types that a schema allows. hops counts the branches on the way from the object that contains it.
func (w *typeWriter) union(schema gjson.Result, in *object, hops int) union {
	isNullable := w.isNullable(schema)
	schema = w.resolve(schema)
	w.nodes--
	switch {
	case hops > maxReferences || w.nodes < 0:
		return union{{text: "…"}}
	case schema.Type == gjson.False:
		return union{{text: "never"}}
	case !schema.IsObject():
		return union{{text: "any"}}
	}
	if constant := w.keywords(schema)["const"]; constant.Exists() {
		return union{{text: literal(constant)}}
	}
	var all union
	if values := elements(w.keywords(schema)["enum"]); len(values) > 0 {
		for _, value := range values[:min(len(values), maxEnum)] {
			all = append(all, alternative{text: literal(value)})
		}
		if len(values) > maxEnum {
			all = append(all, alternative{text: "…"})
		}
	} else {
		all = w.alternatives(schema, in, hops)
	}
	if isNullable || w.isNullable(schema) {
		all = append(all, alternative{text: "null"})
	}
	if all.allowsAny() {
		return union{{text: "any"}}
	}
	return all
}

func (w *typeWriter) isNullable(schema gjson.Result) bool {
	keywords := w.keywords(schema)
	return keywords["nullable"].Type == gjson.True || keywords["x-nullable"].Type == gjson.True
}

// allowsAny reports whether every value is allowed.
func (u union) allowsAny() bool {
	return slices.ContainsFunc(u, func(a alternative) bool { return a.text == "any" })
}

// alternatives returns the types of a schema without an enum.
func (w *typeWriter) alternatives(schema gjson.Result, in *object, hops int) union {
	declared := w.keywords(schema)["type"].Array()
	for _, keyword := range []string{"anyOf", "oneOf"} {
		var all union
		for _, branch := range each(w.keywords(schema)[keyword]) {
			all = append(all, w.union(branch, in, hops+1)...)
		}
		// Branches that say only which members go together add no type.
		if len(all) > 0 && !all.allowsAny() {
			return all
		}
	}
	if branches := elements(w.keywords(schema)["allOf"]); len(branches) > 0 && len(declared) == 0 {
		if shape := w.members(schema); len(shape.names) > 0 {
			return union{w.object(schema, in)}
		}
		for _, branch := range branches {
			if all := w.union(branch, in, hops+1); !all.allowsAny() {
				return all
			}
		}
	}
	if len(declared) == 0 {
		switch {
		case w.keywords(schema)["properties"].Exists() || w.keywords(schema)["additionalProperties"].IsObject():
			return union{w.object(schema, in)}
		case w.keywords(schema)["items"].Exists() || w.keywords(schema)["prefixItems"].Exists():
			return union{w.array(schema, in, hops)}
		}
		return union{{text: "any"}}
	}
	var all union
	for _, name := range declared {
		switch name.Str {
		case "object":
			all = append(all, w.object(schema, in))
		case "array":
			all = append(all, w.array(schema, in, hops))
		case "string", "number", "integer", "boolean", "null":
			all = append(all, alternative{text: name.Str})
		default:
			all = append(all, alternative{text: "any"})
		}
	}
	return all
}

// object returns the type of an object, which is opened later.
func (w *typeWriter) object(schema gjson.Result, in *object) alternative {
	if s := w.members(schema); len(s.names) == 0 && (!s.others.IsObject() || s.others.Raw == "{}") {
		return alternative{text: "object"}
	}
	o := &object{schema: schema, parent: in, depth: 1}
	if in != nil {
		o.depth = in.depth + 1
	}
	w.objects = append(w.objects, o)
	return alternative{object: o}
}

// array returns the type of an array.
func (w *typeWriter) array(schema gjson.Result, in *object, hops int) alternative {
	items, first := w.keywords(schema)["items"], w.keywords(schema)["prefixItems"]
	if items.IsArray() {
		items, first = gjson.Result{}, items
	}
	a := &array{}
	for _, item := range each(first) {
		if len(a.first) == maxEnum {
			a.first = append(a.first, union{{text: "…"}})
			break
		}
		a.first = append(a.first, w.union(item, in, hops+1))
	}
	if len(a.first) == 0 || items.IsObject() {
		a.rest = w.union(items, in, hops+1)
	}
	return alternative{array: a}
}
