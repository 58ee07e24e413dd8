package shape

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/onecall-mcp/onecall/steps"
)

// Bounds of one function: bytes of its schema, names that are counted but not stored yet, and the calls after which a name
// is stored.
const maxSchema, maxPending, enoughCalls = 4096, 256, 5

// forgetAfter is the number of readings after which names that only one call has seen are forgotten.
const forgetAfter = 256

// Which results are read: the first firstReads, then one in readInterval.
const firstReads, readInterval = 32, 32

// hash identifies the path of a name that is not stored yet.
type hash uint64

// sighting counts the calls that saw a name.
type sighting struct {
	calls  uint8
	types  types
	caller uint16 // a hash of the first caller; manyCallers if there are several
}

// manyCallers is the caller of a name that several callers have seen.
const manyCallers = 0

// function holds the learned shape of one function's results.
type function struct {
	key       string
	calls     atomic.Int64
	published atomic.Pointer[steps.ResultShape] // nil: nothing is stored

	mu       sync.Mutex
	salt     []byte
	readings int
	root     *node // nil: nothing is stored yet
	pending  map[hash]sighting
	full     bool // the schema was cut to maxSchema: no more names are stored
}

func newFunction(key string, salt []byte) *function {
	return &function{key: key, salt: salt, pending: map[hash]sighting{}}
}

// shouldRead reports whether the result of this call is read.
func (f *function) shouldRead() bool {
	n := f.calls.Add(1)
	return n <= firstReads || n%readInterval == 0
}

// observe learns from the result of a caller's call. It reports whether there is anything new to save.
func (f *function) observe(result []byte, caller string) bool {
	read := infer(result)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readings++; f.readings%forgetAfter == 0 {
		maps.DeleteFunc(f.pending, func(_ hash, s sighting) bool { return s.calls == 1 })
	}
	o := observation{function: f, caller: f.callerHash(caller)}
	o.learn(read)
	if o.changed {
		f.publish()
	}
	return o.changed
}

// observation adds one result to the shape.
type observation struct {
	*function
	caller  uint16
	changed bool
	queue   []match
}

// match is a node of a result with the stored node at the same path; stored is nil if there is none.
type match struct {
	stored, read *node
	path         hash
}

// learn adds a result, outer names before inner ones.
func (o *observation) learn(read *node) {
	root := o.childPath(0, "")
	if o.root == nil {
		o.root = o.count(root, read)
	}
	o.queue = append(o.queue, match{o.root, read, root})
	for len(o.queue) > 0 {
		m := o.queue[0]
		o.queue = o.queue[1:]
		o.match(m)
	}
}

func (o *observation) match(m match) {
	if m.stored != nil {
		o.widen(m.stored, m.read)
	}
	for _, read := range m.read.members {
		o.member(m, read)
	}
	o.queueUnnamed(m, keyName, func(n *node) **node { return &n.others })
	o.queueUnnamed(m, itemName, func(n *node) **node { return &n.items })
}

// queueUnnamed queues the values of names that are data (keyName), or the elements of an array (itemName).
func (o *observation) queueUnnamed(m match, name string, pick func(*node) **node) {
	read := *pick(m.read)
	if read == nil {
		return
	}
	next := match{nil, read, o.childPath(m.path, name)}
	if m.stored != nil {
		next.stored = *pick(m.stored)
	}
	if next.stored == nil {
		next.stored = o.count(next.path, read)
		if m.stored != nil {
			*pick(m.stored) = next.stored
		}
	}
	o.queue = append(o.queue, next)
}

// widen adds to a stored node what a reading has in addition: types, unknown members, that it is a map, or that members may be missing.
func (o *observation) widen(stored, read *node) {
	if stored.types|read.types != stored.types || read.open && !stored.open {
		stored.types |= read.types
		stored.open = stored.open || read.open
		o.changed = true
	}
	switch {
	case stored.isMap == read.isMap:
	case read.isMap:
		stored.toMap()
		o.changed = true
	case read.types&object != 0:
		read.toMap()
	}
	if read.objects == 0 || read.open {
		return
	}
	for _, m := range stored.members {
		if other := read.member(m.name); !m.optional && (other == nil || other.optional) {
			m.optional, o.changed = true, true
		}
	}
}

// member queues a member of an object. If the name is not stored, it counts the name.
func (o *observation) member(m match, read *member) {
	path := o.childPath(m.path, read.name)
	var stored *node
	switch {
	case m.stored == nil:
		o.count(path, read.node)
	case m.stored.isMap: // an earlier name of this result made it a map
		m.read.other().union(read.node)
		return
	case m.stored.member(read.name) != nil:
		stored = m.stored.member(read.name).node
	case o.full:
		if !m.stored.open {
			m.stored.open, o.changed = true, true
		}
		return
	default:
		_, counted := o.pending[path]
		stored = o.count(path, read.node)
		switch {
		case stored != nil:
			m.stored.members = append(m.stored.members, &member{name: read.name, node: stored, optional: read.optional})
			m.stored.pendingNames = max(m.stored.pendingNames-1, 0) // names that were seen before the object was stored are not counted
		case counted:
		case len(o.pending) < maxPending:
			m.stored.pendingNames++
		default:
			m.stored.open = true
		}
		if len(m.stored.members)+m.stored.pendingNames > maxMembers { // the new node is now merged into others
			m.stored.toMap()
			o.changed = true
		}
	}
	o.queue = append(o.queue, match{stored, read.node, path})
}

// count counts that this call has seen a path. It returns the node to store if enough calls or callers have seen the path; else nil. It
// does not count a new path if maxPending paths are pending.
func (o *observation) count(path hash, read *node) *node {
	s, counted := o.pending[path]
	if !counted && len(o.pending) >= maxPending {
		return nil
	}
	o.changed = true
	s.types |= read.types
	if s.calls++; s.calls == 1 {
		s.caller = o.caller
	} else if s.caller != o.caller {
		s.caller = manyCallers
	}
	if s.calls >= enoughCalls || s.caller == manyCallers {
		delete(o.pending, path)
		return &node{types: s.types}
	}
	o.pending[path] = s
	return nil
}
