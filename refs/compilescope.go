package refs

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/onecall-mcp/onecall/fault"
)

// CompileScope says which names are legal in a text.
type CompileScope struct {
	At     string         // JSON Pointer of the value; every fault's At begins with it
	Step   int            // number of the text's step (Steps in `return`): steps 0 to Step-1 may be named, $prev is Step-1
	Steps  int            // number of steps of the chain: a reference to a step from Steps on is unknown, not forward
	IDs    map[string]int // step numbers by id
	Item   bool           // $item and $index are in scope
	Before bool           // the text is read once, before the step's forEach begins; only messages about $item depend on it
	Result bool           // $result is in scope

	// Input reports whether $input has a key: a reference to another key is a fault. nil: not checked.
	Input func(key string) bool

	// Expression is the full JSON Pointer of an argument that is itself an expression, over the names that the function gives it. What
	// looks like a reference in it is no fault here: the function refuses it.
	Expression string

	// State and Secret admit $state and $secret; otherwise such a reference is a fault (not_supported).
	State, Secret bool
}

// Use is one reference of a template, a selector or an expression.
type Use struct {
	At      string // full JSON Pointer of the string that contains it
	Root    Root   // never rootPrev, which becomes RootStep
	Step    int    // the number of the step, for RootStep
	Path    []Segment
	Whole   bool // the value keeps its type; false within a text or an expression
	Lenient bool // a missing value is expected: the reference has a default (??) or a ?
	Status  bool // the expression reads status(n): the step must end, but need not succeed

	// Expression reports that the use is in an expression, where a missing key is null; a missing element or a walk into
	// null or a scalar is still an error.
	Expression bool
}

// boundReference is a reference with a resolved root and with gjson paths.
type boundReference struct {
	Reference
	number int // the number of the step, for RootStep
	walker walker
}

// bind resolves r's root.
func (s *CompileScope) bind(r Reference) (*boundReference, *fault.Error) {
	root, number, err := s.resolve(r)
	if err != nil {
		return nil, err
	}
	r.root = root
	return &boundReference{Reference: r, number: number, walker: newWalker(r.segments)}, nil
}

// resolve returns the root of r, never rootPrev, and the number of the step, for RootStep.
func (s *CompileScope) resolve(r Reference) (Root, int, *fault.Error) {
	switch r.root {
	case RootStep:
		n, err := s.step(r)
		return RootStep, n, err
	case rootPrev:
		if s.Step == 0 {
			return 0, 0, fault.New(fault.BadReference, "$prev names the step before, and there is none before step 0.")
		}
		return RootStep, s.Step - 1, nil
	case RootItem, rootIndex:
		switch {
		case !s.Item && s.Before:
			return 0, 0, fault.New(fault.BadReference, "$%s is not known here: when and forEach are decided once, before the first "+
				"element. Filter in forEach, as in filter($0.items, # contains \"a\").", r.root.name())
		case !s.Item:
			return 0, 0, fault.New(fault.BadReference, "$%s is known only in a step with forEach.", r.root.name())
		}
	case RootResult:
		if !s.Result {
			return 0, 0, fault.New(fault.BadReference, "$result is known only in select, repeat and undo, and in args of a step with repeat.")
		}
	case RootState, rootSecret:
		if r.root == RootState && !s.State || r.root == rootSecret && !s.Secret {
			return 0, 0, fault.New(fault.NotSupported, "$%s is not supported by this version. Pass the value as $input.", r.root.name())
		}
	}
	return r.root, 0, nil
}

func (s *CompileScope) step(r Reference) (int, *fault.Error) {
	n, name := r.step, strconv.Itoa(r.step)
	if r.id != "" {
		name = r.id
		var ok bool
		if n, ok = s.IDs[r.id]; !ok {
			e := fault.New(fault.BadReference, "No step has the id %q.", clip(r.id))
			e.Available = s.names()
			e.Nearest = fault.Nearest("$"+r.id, e.Available, 3)
			return 0, e
		}
	}
	switch {
	case n < s.Step:
		return n, nil
	case n >= s.Steps:
		return 0, fault.New(fault.BadReference, "There is no step %s: %s.", name, s.earlier())
	case n == s.Step:
		return 0, fault.New(fault.BadReference, "$%s is this step itself; only earlier steps can be named.", name)
	}
	return 0, fault.New(fault.BadReference,
		"$%s points forward: step %d runs after this one. Only earlier steps can be named; change the order of the steps.", name, n)
}

func (s *CompileScope) earlier() string {
	switch s.Step {
	case 0:
		return "no step comes before this one"
	case 1:
		return "only step 0 comes before this one"
	}
	return fmt.Sprintf("steps 0 to %d come before this one", s.Step-1)
}

// names lists what a reference may begin with here: ids of earlier steps, then the fixed names.
func (s *CompileScope) names() []string {
	var names []string
	for id, n := range s.IDs {
		if n < s.Step {
			names = append(names, "$"+id)
		}
	}
	slices.Sort(names)
	names = append(names, "$input")
	if s.Step > 0 {
		names = append(names, "$prev")
	}
	if s.Item {
		names = append(names, "$item", "$index")
	}
	if s.Result {
		names = append(names, "$result")
	}
	if s.State {
		names = append(names, "$state")
	}
	return names
}

func (b *boundReference) use(at string, whole bool) Use {
	return Use{At: at, Root: b.root, Step: b.number, Path: b.segments, Whole: whole, Lenient: b.lenient()}
}
