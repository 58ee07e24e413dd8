package refs

import (
	"slices"

	"github.com/expr-lang/expr/ast"
)

// elementRead is a path that a predicate reads of each element of a lookup's value.
type elementRead struct {
	lookup   *lookup
	segments []Segment // the path from the lookup's root
	lenient  bool      // ?? provides a default
}

// elementReads collects what predicates read of their elements. It visits each node of a tree after its children.
type elementReads struct {
	lookups map[ast.Node]*lookup // the calls that replace lookups
	done    []elementRead

	open      []elementRead         // the reads of incomplete predicates; their segments start at the element
	valueRead map[ast.Node]int      // for a node that is an element, or a path into one: the index of its read in open
	passes    map[ast.Node]ast.Node // the node whose value or elements a node passes on
	openAfter map[ast.Node]int      // the length of open after a node was visited; 0 if it was not
}

func newElementReads() elementReads {
	return elementReads{lookups: map[ast.Node]*lookup{}, valueRead: map[ast.Node]int{}, passes: map[ast.Node]ast.Node{},
		openAfter: map[ast.Node]int{}}
}

// before handles a node whose children are complete, before the guard may replace it.
func (r *elementReads) before(node ast.Node) {
	switch n := node.(type) {
	case *ast.PointerNode:
		if n.Name == "" {
			r.valueRead[node] = len(r.open)
			r.open = append(r.open, elementRead{})
		}
	case *ast.MemberNode:
		i, ok := r.valueRead[n.Node]
		s, fixed := fixedMember(n)
		if ok && fixed && len(r.open[i].segments) < maxSegments {
			r.open[i].segments = append(r.open[i].segments, s)
			r.valueRead[node] = i
		}
	case *ast.ChainNode:
		r.passes[node] = n.Node
	case *ast.BinaryNode:
		if n.Operator == "??" {
			r.expect(n.Left)
		}
	case *ast.BuiltinNode:
		if n.Name == "filter" || n.Name == "sortBy" || n.Name == "take" {
			r.passes[node] = n.Arguments[0]
		}
		r.predicate(n)
	}
}

// after handles the same node, or the one that the guard replaced it with.
func (r *elementReads) after(node ast.Node) {
	if len(r.open) > 0 {
		r.openAfter[node] = len(r.open)
	}
}

// expect records that a value may be missing.
func (r *elementReads) expect(node ast.Node) {
	if chain, ok := node.(*ast.ChainNode); ok {
		node = chain.Node
	}
	if i, ok := r.valueRead[node]; ok {
		r.open[i].lenient = true
	} else if l := r.lookups[node]; l != nil {
		l.hasDefault = true
	}
}

// predicate completes the reads of a predicate, which read the elements of the function's first argument.
func (r *elementReads) predicate(n *ast.BuiltinNode) {
	if len(n.Arguments) < 2 {
		return
	}
	if _, ok := n.Arguments[1].(*ast.PredicateNode); !ok {
		return
	}
	from, to := r.openAfter[n.Arguments[0]], r.openAfter[n.Arguments[1]]
	list := n.Arguments[0]
	for r.passes[list] != nil {
		list = r.passes[list]
	}
	outer, nested := r.valueRead[list]
	reads := slices.Clone(r.open[from:to])
	r.open = slices.Delete(r.open, from, to)
	for _, read := range reads {
		if len(read.segments) == 0 { // it reads whole elements, which the use of the list itself covers
			continue
		}
		base := elementRead{lookup: r.lookups[list]}
		switch {
		case nested: // the list is part of an element of an outer predicate, which is not complete yet
			base = r.open[outer]
		case base.lookup != nil && !base.lookup.status:
			base.segments = base.lookup.segments
		default:
			continue
		}
		read.lookup, read.lenient = base.lookup, read.lenient || base.lenient
		read.segments = slices.Concat(base.segments, []Segment{{Kind: Each}}, read.segments)
		if nested {
			r.open = append(r.open, read)
		} else {
			r.done = append(r.done, read)
		}
	}
}
