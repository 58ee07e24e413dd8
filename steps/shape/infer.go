package shape

import (
	"strings"

	"github.com/tidwall/gjson"
)

// Bounds on how much of one result is read: bytes, values and levels.
const maxBytes, maxValues, maxDepth = 1 << 20, 4096, 10

// infer returns the shape of one result, which is valid JSON. Elements of an array share one shape. Beyond the bounds
// nothing is known: objects that were not read completely are open, and the elements that were read stand for all.
func infer(result []byte) *node {
	r := reader{values: maxValues}
	root := &node{}
	r.value(root, gjson.ParseBytes(result[:min(len(result), maxBytes)]), maxDepth)
	root.finish()
	return root
}

// finish converts objects to maps if at least half of their names are data or their members are similar records, and marks members that
// some objects lack.
func (n *node) finish() {
	for _, m := range n.members {
		m.optional = m.seen < n.objects
		m.finish()
	}
	if n.others != nil {
		n.others.finish()
	}
	if n.items != nil {
		n.items.finish()
	}
	names := 0
	for _, m := range n.members {
		names += m.seen
	}
	if n.data > 0 && n.data >= names || n.isRecordLike() {
		n.toMap()
	}
}

// isRecordLike reports whether the members are similar records, so that their names are data: at least three objects with the same two or
// more members.
func (n *node) isRecordLike() bool {
	if len(n.members) < 3 {
		return false
	}
	first := n.members[0]
	for _, m := range n.members {
		if m.types != object || len(m.members) < 2 || len(m.members) != len(first.members) {
			return false
		}
		for _, inner := range m.members {
			if first.member(inner.name) == nil {
				return false
			}
		}
	}
	return true
}

// reader reads one result within the bounds.
type reader struct{ values int } // how many values may still be read

// value reads one value into n.
func (r *reader) value(n *node, v gjson.Result, depth int) {
	r.values--
	kind := typeOf(v)
	n.types |= kind
	beyond := depth == 0 || r.values <= 0
	switch kind {
	case object:
		n.open = n.open || beyond || v.Index+len(v.Raw) >= maxBytes // the text may have been cut inside the object
		if !beyond {
			r.object(n, v, depth-1)
		}
	case array:
		if !beyond {
			v.ForEach(func(_, element gjson.Result) bool {
				r.value(n.item(), element, depth-1)
				return r.values > 0
			})
		}
	}
}

func (r *reader) object(n *node, v gjson.Result, depth int) {
	n.objects++
	next := 0
	v.ForEach(func(name, inner gjson.Result) bool {
		if r.values <= 0 {
			n.open = true
			return false
		}
		r.value(n.memberNamed(name.Str, next), inner, depth)
		next++
		if len(n.members) > maxMembers {
			n.toMap()
		}
		return true
	})
}

func typeOf(v gjson.Result) types {
	switch {
	case v.IsObject():
		return object
	case v.IsArray():
		return array
	case v.Type == gjson.Null:
		return null
	case v.IsBool():
		return boolean
	case v.Type == gjson.String:
		return text
	case strings.ContainsAny(v.Raw, ".eE"):
		return number
	}
	return integer
}

// memberNamed returns the node of an object's member, which it adds if it is new, and counts the member. Objects of one array mostly have
// their members in one order, so the member at position is tried first.
func (n *node) memberNamed(name string, position int) *node {
	var m *member
	if position < len(n.members) && n.members[position].name == name {
		m = n.members[position]
	} else {
		m = n.member(name)
	}
	switch {
	case n.isMap:
		return n.other()
	case m == nil && isData(name):
		n.data++
		return n.other()
	case m == nil:
		m = &member{name: strings.Clone(name), node: &node{}} // the result is not retained
		n.members = append(n.members, m)
	}
	m.seen++
	return m.node
}
