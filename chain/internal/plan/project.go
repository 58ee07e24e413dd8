package plan

import (
	"slices"
	"strconv"

	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/refs"
)

// Projection says that the calls of a step ask only for the members of their result that the plan refers to.
type Projection struct {
	Unasked int // the members, as they are declared or were seen, that are not asked for; 0: not known
}

// project makes the steps whose functions take a list of fields ask for the members that the plan refers to. The plan must only read: a
// write is not made again, so a resume that refers to more could not get it.
func (p *Plan) project() {
	var reads []memberReads
	for i, s := range p.Steps {
		switch {
		case s.Inline != nil:
			s.Inline.project()
		case s.Fn == nil || s.Fn.Spec().Fields == "":
		default:
			if reads == nil {
				reads = p.reads()
			}
			if r := reads[i]; !r.whole && len(r.names) > 0 {
				slices.Sort(r.names) // the same members are the same arguments, whatever refers to them
				s.askFor(slices.Compact(r.names))
			}
		}
	}
}

// askFor adds the list of fields to a step's arguments, unless they have one.
func (s *Step) askFor(names []string) {
	spec := s.Fn.Spec()
	if s.Args == nil {
		return
	}
	args := WithCommon(s.Args.Value(), s.Common)
	isField := func(name string) bool { return name == spec.Fields }
	if args[0] != '{' || providesArgument(s.Fn, args, spec.Fields) || rawjson.HasMember(spec.Defaults, isField) {
		return
	}
	known := s.Fn.ResultMembers()
	if s.MayTruncate && slices.Contains(known, "truncated") && !slices.Contains(names, "truncated") {
		names = append(names, "truncated") // the run itself reads it
	}
	// What is sent depends on what is declared alone: a run that goes on later, when more results were seen, sends the same.
	declared := len(spec.Output) > 0 && len(known) > 0
	unasked := len(known)
	for _, name := range names {
		if slices.Contains(known, name) {
			unasked--
		} else if declared {
			return // the service may refuse a name that it does not declare
		}
	}
	value := s.Fn.FieldList(names)
	if value == nil || declared && unasked == 0 {
		return
	}
	common := slices.Clone(s.Common)
	if len(common) > 0 {
		common = append(common, ',')
	}
	s.Common = append(append(rawjson.AppendQuote(common, spec.Fields), ':'), value...)
	s.Projection = &Projection{Unasked: unasked}
}

// memberReads is what a plan reads of the results of a step's calls.
type memberReads struct {
	names []string // their members, or those of their elements
	whole bool     // all of them, or what has no name
}

// add adds what is read at a path of a result.
func (r *memberReads) add(path []refs.Segment) {
	if len(path) > 0 && !isKey(path[0]) {
		path = path[1:] // the result is an array: its elements have the members
	}
	if len(path) == 0 || !isKey(path[0]) {
		r.whole = true
		return
	}
	if _, err := strconv.Atoi(path[0].Key); err == nil { // it may be an index
		r.whole = true
	}
	r.names = append(r.names, path[0].Key)
}

func isKey(s refs.Segment) bool { return s.Kind == refs.Name || s.Kind == refs.Quoted }

// reads returns, by step, what the plan reads of the results of its calls: what the step itself reads of $result and, unless it makes
// another value of that, what later steps and `return` read of the step.
func (p *Plan) reads() []memberReads {
	all := make([]memberReads, len(p.Steps))
	add := func(uses []refs.Use) {
		for _, u := range uses {
			if u.Root == refs.RootStep && !u.Status && !p.Steps[u.Step].makesValue() {
				all[u.Step].addOf(p.Steps[u.Step], u.Path)
			}
		}
	}
	for i, s := range p.Steps {
		for _, u := range s.uses(s.Collect == nil) {
			if u.Root == refs.RootResult {
				all[i].add(u.Path)
			}
		}
		add(s.uses(true))
	}
	if p.Returned != nil {
		add(p.Returned.Uses())
	} else if last := len(p.Steps) - 1; last >= 0 && !p.Steps[last].makesValue() {
		all[last].whole = true
	}
	return all
}

// makesValue reports whether the step's value is made of the results of its calls by select or collect.
func (s *Step) makesValue() bool { return s.Collect != nil || s.Selector != nil }

// addOf adds what is read at a path of the value of a step.
func (r *memberReads) addOf(s *Step, path []refs.Segment) {
	switch {
	case s.ForEach == nil:
		r.add(path)
	case len(path) == 0 || isKey(path[0]): // of the array of results
		r.whole = true
	default:
		r.add(path[1:])
	}
}

// uses returns the references in all texts of a step; those of select only on demand.
func (s *Step) uses(withSelect bool) (all []refs.Use) {
	if s.Args != nil {
		all = append(all, s.Args.Uses()...)
	}
	if s.Undo != nil {
		all = append(all, s.Undo.Args.Uses()...)
	}
	for _, x := range []*refs.Expression{s.Expr, s.When, s.Until} {
		if x != nil {
			all = append(all, x.Uses()...)
		}
	}
	for _, x := range []*refs.Selector{s.ForEach, s.Collect} {
		if x != nil {
			all = append(all, x.Uses()...)
		}
	}
	if s.Selector != nil && withSelect {
		all = append(all, s.Selector.Uses()...)
	}
	return all
}
