package shape

import (
	"slices"
	"strconv"

	"github.com/tidwall/gjson"
)

// types is a set of JSON types.
type types uint8

const (
	null types = 1 << iota
	boolean
	integer
	number
	text
	array
	object
)

var typeNames = []string{"null", "boolean", "integer", "number", "string", "array", "object"} // by bit in types

// node is the shape of the values at one path.
type node struct {
	types        types
	members      []*member // in the order of their first appearance
	others       *node     // the values of names that are data; nil: there are none
	items        *node     // the elements of arrays; nil: no array had elements
	open         bool      // an object may have unknown members
	isMap        bool      // every name of the object counts as data: others has all its members
	pendingNames int       // names seen here but not stored yet
	objects      int       // within one result: how many objects are here
	data         int       // within one result: how many names here are data
}

type member struct {
	name string
	*node
	optional bool // some objects lack it
	seen     int  // within one result: how many objects have it
}

// maxMembers is the number of names above which an object is a map.
const maxMembers = 64

func (n *node) member(name string) *member {
	for _, m := range n.members {
		if m.name == name {
			return m
		}
	}
	return nil
}

// other returns the node of all names that are data, which it adds if there is none.
func (n *node) other() *node {
	if n.others == nil {
		n.others = &node{}
	}
	return n.others
}

// item returns the node of all elements, which it adds if there is none.
func (n *node) item() *node {
	if n.items == nil {
		n.items = &node{}
	}
	return n.items
}

// toMap merges all members of an object into others.
func (n *node) toMap() {
	n.isMap = true
	for _, m := range n.members {
		n.other().union(m.node)
	}
	n.members = nil
}

// union extends the node by everything that another node allows. The node may then share members with that one.
func (n *node) union(from *node) {
	n.types |= from.types
	n.open = n.open || from.open
	names := max(len(n.members)+n.pendingNames, len(from.members)+from.pendingNames)
	n.objects += from.objects
	n.data += from.data
	if from.others != nil {
		n.other().union(from.others)
	}
	if from.items != nil {
		n.item().union(from.items)
	}
	if from.isMap {
		n.toMap()
	}
	for _, m := range from.members {
		switch mine := n.member(m.name); {
		case n.isMap:
			n.other().union(m.node)
		case mine != nil:
			mine.union(m.node)
			mine.optional = mine.optional || m.optional
			mine.seen += m.seen
		default:
			n.members = append(n.members, m)
		}
	}
	if !n.isMap {
		n.pendingNames = max(names-len(n.members), 0) // names that are pending in one node may be stored in the other
	}
	if len(n.members) > maxMembers {
		n.toMap()
	}
}

// equal reports whether two shapes are the same.
func (n *node) equal(to *node) bool {
	if n == nil || to == nil {
		return n == to
	}
	return n.types == to.types && n.open == to.open && n.isMap == to.isMap && n.others.equal(to.others) && n.items.equal(to.items) &&
		slices.EqualFunc(n.members, to.members, func(a, b *member) bool {
			return a.name == b.name && a.optional == b.optional && a.node.equal(b.node)
		})
}

// appendSchema appends the node as a JSON Schema. For the file it includes keywords that only this package reads: "optional",
// "map", "pending". Otherwise the names that every object has are required.
func (n *node) appendSchema(dst []byte, forFile bool) []byte {
	dst = append(dst, '{')
	known := n.types
	if !forFile && known == null {
		known = 0 // it may have any type when it is present
	}
	if known&number != 0 {
		known &^= integer
	}
	start := len(dst)
	key := func(name string) {
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), name...), '"', ':')
	}
	if known != 0 {
		key("type")
		dst = known.append(dst)
	}
	if len(n.members) > 0 {
		key("properties")
		dst = append(dst, '{')
		for i, m := range n.members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = m.appendSchema(append(quote(dst, m.name), ':'), forFile)
		}
		dst = append(dst, '}')
	}
	if forFile {
		dst = n.appendNames(dst, "optional", true)
	} else {
		dst = n.appendNames(dst, "required", false)
	}
	switch {
	case n.others != nil:
		key("additionalProperties")
		dst = n.others.appendSchema(dst, forFile)
	case len(n.members) > 0 && !n.open:
		key("additionalProperties")
		dst = append(dst, "false"...)
	}
	if n.items != nil {
		key("items")
		dst = n.items.appendSchema(dst, forFile)
	}
	if forFile && n.isMap {
		key("map")
		dst = append(dst, "true"...)
	}
	if forFile && n.pendingNames > 0 {
		key("pending")
		dst = strconv.AppendInt(dst, int64(n.pendingNames), 10)
	}
	return append(dst, '}')
}

// appendNames appends, under a keyword, the names of the members whose optional field equals optional.
func (n *node) appendNames(dst []byte, keyword string, optional bool) []byte {
	before := `,"` + keyword + `":[`
	for _, m := range n.members {
		if m.optional == optional {
			dst = quote(append(dst, before...), m.name)
			before = ","
		}
	}
	if before == "," {
		dst = append(dst, ']')
	}
	return dst
}

// quote appends a name as JSON. Stored names need no escapes: see isData.
func quote(dst []byte, name string) []byte { return append(append(append(dst, '"'), name...), '"') }

func (t types) append(dst []byte) []byte {
	start := len(dst)
	for i, name := range typeNames {
		if t&(1<<i) != 0 {
			dst = append(append(append(dst, '"'), name...), '"', ',')
		}
	}
	dst = dst[:len(dst)-1]
	if t&(t-1) != 0 {
		dst = append(slices.Insert(dst, start, '['), ']')
	}
	return dst
}

// parse parses a schema that appendSchema wrote for the file. It drops what appendSchema would not have written.
func parse(schema gjson.Result, depth int) *node {
	n := &node{isMap: schema.Get("map").Bool(), pendingNames: int(schema.Get("pending").Int())}
	for _, name := range schema.Get("type").Array() {
		if i := slices.Index(typeNames, name.Str); i >= 0 {
			n.types |= 1 << i
		}
	}
	if depth == 0 {
		n.open = true
		return n
	}
	schema.Get("properties").ForEach(func(name, property gjson.Result) bool {
		if property.IsObject() && n.member(name.Str) == nil && len(n.members) < maxMembers && !isData(name.Str) {
			n.members = append(n.members, &member{name: name.Str, node: parse(property, depth-1)})
		}
		return true
	})
	for _, name := range schema.Get("optional").Array() {
		if m := n.member(name.Str); m != nil {
			m.optional = true
		}
	}
	additional := schema.Get("additionalProperties")
	if additional.IsObject() {
		n.others = parse(additional, depth-1)
	}
	n.open = len(n.members) > 0 && !additional.Exists()
	if items := schema.Get("items"); items.IsObject() {
		n.items = parse(items, depth-1)
	}
	return n
}
