package shape

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/onecall-mcp/onecall/steps"
)

// Bounds of one function: bytes of its schema, names that are counted and not kept yet, and the calls after which a name
// is kept.
const maxSchema, maxPending, enoughCalls = 4096, 256, 5

// forgetful is the number of readings after which names that one call has seen are forgotten.
const forgetful = 256

// Which results are read: all of the first eager ones, then one of seldom.
const eager, seldom = 32, 32

// hash stands for the path of a name that is not kept yet.
type hash uint64

// sighting counts the calls that saw a name.
type sighting struct {
	calls  uint8
	types  types
	caller uint16 // a hash of the first caller; several: of more than one
}

// several is the caller of a name that more than one have seen.
const several = 0

// function is the shape of one function's results.
type function struct {
	key   string
	calls atomic.Int64
	seen  atomic.Pointer[steps.Seen] // nil: nothing is kept

	mu       sync.Mutex
	salt     []byte
	readings int
	root     *node // nil: not kept yet
	pending  map[hash]sighting
	full     bool // no more names are kept
}

func newFunction(key string, salt []byte) *function {
	return &function{key: key, salt: salt, pending: map[hash]sighting{}}
}

// due reports whether the result of this call is read.
func (f *function) due() bool {
	n := f.calls.Add(1)
	return n <= eager || n%seldom == 0
}

// observe learns from a result of a call that the caller made; it reports whether anything is new.
func (f *function) observe(result []byte, caller string) bool {
	read := infer(result)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readings++; f.readings%forgetful == 0 {
		maps.DeleteFunc(f.pending, func(_ hash, s sighting) bool { return s.calls == 1 })
	}
	o := observation{function: f, caller: f.callerHash(caller)}
	o.learn(read)
	if o.changed {
		f.publish()
	}
	return o.changed
}

// observation is one result on its way into the shape.
type observation struct {
	*function
	caller  uint16
	changed bool
	queue   []match
}

// match is a node of a result with the kept node of the same place; nil: there is none.
type match struct {
	kept, read *node
	path       hash
}

// learn takes in a result, the outer names before the inner ones.
func (o *observation) learn(read *node) {
	root := o.step(0, "")
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
	if m.kept != nil {
		o.widen(m.kept, m.read)
	}
	for _, one := range m.read.members {
		o.member(m, one)
	}
	o.unnamed(m, keyStep, func(n *node) **node { return &n.others })
	o.unnamed(m, itemStep, func(n *node) **node { return &n.items })
}

// unnamed goes on to the values of names that are data, or to the elements of an array.
func (o *observation) unnamed(m match, step string, pick func(*node) **node) {
	read := *pick(m.read)
	if read == nil {
		return
	}
	next := match{nil, read, o.step(m.path, step)}
	if m.kept != nil {
		next.kept = *pick(m.kept)
	}
	if next.kept == nil {
		next.kept = o.count(next.path, read)
		if m.kept != nil {
			*pick(m.kept) = next.kept
		}
	}
	o.queue = append(o.queue, next)
}

// widen adds the types of a reading to a kept node, and what follows from how it looks.
func (o *observation) widen(kept, read *node) {
	if kept.types|read.types != kept.types || read.open && !kept.open {
		kept.types |= read.types
		kept.open = kept.open || read.open
		o.changed = true
	}
	switch {
	case kept.isMap == read.isMap:
	case read.isMap:
		kept.toMap()
		o.changed = true
	case read.types&object != 0:
		read.toMap()
	}
	if read.objects == 0 || read.open {
		return
	}
	for _, m := range kept.members {
		if other := read.member(m.name); !m.optional && (other == nil || other.optional) {
			m.optional, o.changed = true, true
		}
	}
}

// member goes on to a name of an object, if that is kept, and counts it if it is not.
func (o *observation) member(m match, read *member) {
	path := o.step(m.path, read.name)
	var kept *node
	switch {
	case m.kept == nil:
		o.count(path, read.node)
	case m.kept.isMap: // since one of its names before this
		m.read.other().union(read.node)
		return
	case m.kept.member(read.name) != nil:
		kept = m.kept.member(read.name).node
	case o.full:
		if !m.kept.open {
			m.kept.open, o.changed = true, true
		}
		return
	default:
		_, counted := o.pending[path]
		kept = o.count(path, read.node)
		switch {
		case kept != nil:
			m.kept.members = append(m.kept.members, &member{name: read.name, node: kept, optional: read.optional})
		case counted:
		case len(o.pending) < maxPending:
			m.kept.novel++
		default:
			m.kept.open = true
		}
		if len(m.kept.members)+m.kept.novel > maxMembers { // what is kept of this one is among the others now
			m.kept.toMap()
			o.changed = true
		}
	}
	o.queue = append(o.queue, match{kept, read.node, path})
}

// count counts that this call has seen a path, and gives the node to keep for it when that is enough.
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
		s.caller = several
	}
	if s.calls >= enoughCalls || s.caller == several {
		delete(o.pending, path)
		return &node{types: s.types}
	}
	o.pending[path] = s
	return nil
}
