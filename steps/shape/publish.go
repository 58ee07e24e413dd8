package shape

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// Names in paths for all elements of an array and for all names that are data. No member's name contains a zero byte.
const itemName, keyName = "\x00item", "\x00key"

// childPath returns the path of a name below another path.
func (f *function) childPath(path hash, name string) hash {
	b := binary.LittleEndian.AppendUint64(f.salt[:len(f.salt):len(f.salt)], uint64(path))
	sum := sha256.Sum256(append(b, name...))
	return hash(binary.LittleEndian.Uint64(sum[:]) >> 16) // 48 bits are stored
}

// callerHash identifies a caller; it is never manyCallers.
func (f *function) callerHash(caller string) uint16 {
	return max(1, uint16(f.childPath(0, "\x00caller"+caller)))
}

// publish publishes the schema of the stored nodes. It drops members to stay within maxSchema. The caller holds the lock.
func (f *function) publish() {
	if f.root == nil {
		return
	}
	for len(f.root.appendSchema(nil, true)) > maxSchema && f.root.dropLast() {
		f.full = true
	}
	schema := f.root.appendSchema(nil, false)
	if last := f.published.Load(); last == nil || string(last.Schema) != string(schema) {
		f.published.Store(&steps.ResultShape{Schema: schema, Rare: f.rare})
	}
}

// dropLast drops the last of the deepest members, and reports whether there was one.
func (n *node) dropLast() bool {
	var at *node
	deepest := -1
	n.walk(0, func(n *node, depth int) {
		if len(n.members) > 0 && depth >= deepest {
			at, deepest = n, depth
		}
	})
	if at == nil {
		return false
	}
	at.members, at.open = at.members[:len(at.members)-1], true
	return true
}

// walk calls do for a node and all nodes below it.
func (n *node) walk(depth int, do func(n *node, depth int)) {
	do(n, depth)
	for _, m := range n.members {
		m.walk(depth+1, do)
	}
	if n.others != nil {
		n.others.walk(depth+1, do)
	}
	if n.items != nil {
		n.items.walk(depth+1, do)
	}
}

// rare reports whether a path leaves the shape at a name that was seen, but too rarely to be stored.
func (f *function) rare(path []schema.Element) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, at := f.root, f.childPath(0, "")
	for _, element := range path {
		isElement := element.Index || element.Each
		m := n.member(element.Key)
		switch {
		case m != nil && !isElement && (n.others != nil || f.isPending(f.childPath(at, keyName))):
			return true // some results had it among names that are data
		case m != nil && !isElement:
			n, at = m.node, f.childPath(at, element.Key)
		case n.items != nil && (isElement || n.types&object == 0):
			n, at = n.items, f.childPath(at, itemName)
		case isElement:
			return false
		case f.isPending(f.childPath(at, element.Key)), n.others == nil:
			return f.isPending(f.childPath(at, element.Key)) || f.isPending(f.childPath(at, keyName))
		default:
			n, at = n.others, f.childPath(at, keyName)
		}
	}
	return false
}

// isPending reports whether a path was seen, but too rarely to be stored.
func (f *function) isPending(path hash) bool {
	_, counted := f.pending[path]
	return counted
}
