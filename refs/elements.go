package refs

import (
	"slices"

	"github.com/expr-lang/expr/ast"
)

// elementRead is a path that a predicate reads of each element of a lookup's value.
type elementRead struct {
	of       *lookup
	segments []Segment // from the lookup's root on
	lenient  bool      // ?? gives a default
}

// elementReads collects what predicates read of their elements. It meets the nodes of a tree children first.
type elementReads struct {
	found map[ast.Node]*lookup // the calls that stand for lookups
	done  []elementRead

	open    []elementRead         // of predicates that are not complete: their segments begin at the element
	value   map[ast.Node]int      // index of the open read that gives the node's value
	through map[ast.Node]ast.Node // the node whose value, or whose elements, a node passes on
	ends    map[ast.Node]int      // length of open after a node; 0 if it is missing
}

func newElementReads() elementReads {
	return elementReads{found: map[ast.Node]*lookup{}, value: map[ast.Node]int{}, through: map[ast.Node]ast.Node{}, ends: map[ast.Node]int{}}
}

// before is called for a node whose children are complete.
func (r *elementReads) before(node ast.Node) {
	switch n := node.(type) {
	case *ast.PointerNode:
		if n.Name == "" {
			r.value[node] = len(r.open)
			r.open = append(r.open, elementRead{})
		}
	case *ast.MemberNode:
		i, ok := r.value[n.Node]
		s, fixed := fixedMember(n)
		if ok && fixed && len(r.open[i].segments) < maxSegments {
			r.open[i].segments = append(r.open[i].segments, s)
			r.value[node] = i
		}
	case *ast.ChainNode:
		r.through[node] = n.Node
	case *ast.BinaryNode:
		if n.Operator == "??" {
			r.expect(n.Left)
		}
	case *ast.BuiltinNode:
		if n.Name == "filter" || n.Name == "sortBy" || n.Name == "take" {
			r.through[node] = n.Arguments[0]
		}
		r.predicate(n)
	}
}

// after is called for a node when it is complete itself.
func (r *elementReads) after(node ast.Node) {
	if len(r.open) > 0 {
		r.ends[node] = len(r.open)
	}
}

// expect notes that a value may be missing.
func (r *elementReads) expect(node ast.Node) {
	if chain, ok := node.(*ast.ChainNode); ok {
		node = chain.Node
	}
	if i, ok := r.value[node]; ok {
		r.open[i].lenient = true
	} else if l := r.found[node]; l != nil {
		l.expected = true
	}
}

// predicate completes the reads of a function's predicate: they are of the elements of its first argument.
func (r *elementReads) predicate(n *ast.BuiltinNode) {
	if len(n.Arguments) < 2 {
		return
	}
	if _, ok := n.Arguments[1].(*ast.PredicateNode); !ok {
		return
	}
	from, to := r.ends[n.Arguments[0]], r.ends[n.Arguments[1]]
	list := n.Arguments[0]
	for r.through[list] != nil {
		list = r.through[list]
	}
	outer, nested := r.value[list]
	reads := slices.Clone(r.open[from:to])
	r.open = slices.Delete(r.open, from, to)
	for _, read := range reads {
		if len(read.segments) == 0 {
			continue
		}
		base := elementRead{of: r.found[list]}
		switch {
		case nested:
			base = r.open[outer]
		case base.of != nil && !base.of.status:
			base.segments = base.of.segments
		default:
			continue
		}
		read.of, read.lenient = base.of, read.lenient || base.lenient
		read.segments = slices.Concat(base.segments, []Segment{{Kind: Each}}, read.segments)
		if nested {
			r.open = append(r.open, read)
		} else {
			r.done = append(r.done, read)
		}
	}
}
