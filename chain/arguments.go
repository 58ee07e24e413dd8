package chain

import (
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// checkArguments checks the step's arguments against its function's input schema as far as they are known: literals
// wholly, references by what the producing function's output schema says of them.
func (c *compiler) checkArguments(l *level, p *plannedStep) {
	argsAt := p.at + "/args"
	if p.literal != nil {
		for _, f := range p.fn.Check(p.literal, nil) {
			c.faults.add(f.Under(argsAt))
		}
		return
	}
	uses := p.args.Uses()
	holes := make([]steps.Hole, 0, len(uses))
	for _, u := range uses {
		hole := steps.Hole{At: strings.TrimPrefix(u.At, argsAt)}
		if u.Whole {
			hole.Types = c.produced(l, &u)
		} else {
			hole.Types = []string{"string"}
			c.produced(l, &u)
		}
		holes = append(holes, hole)
	}
	for _, at := range p.args.Broken() {
		holes = append(holes, steps.Hole{At: strings.TrimPrefix(at, argsAt)})
	}
	if len(p.fn.Spec().Input) == 0 {
		return
	}
	for _, f := range p.fn.Check(withCommon(p.args.Value(), p.common), holes) {
		c.faults.add(f.Under(argsAt))
	}
}

// produced gives the types that a reference can have by the output schema of the function that it reads from; nil when
// they are not known. A path that the schema forbids is a fault.
func (c *compiler) produced(l *level, u *refs.Use) []string {
	if u.Root != refs.RootStep || u.Lenient || u.Step >= len(l.planned) || l.planned[u.Step] == nil {
		return nil
	}
	from, written := l.planned[u.Step], &l.steps[u.Step]
	if from.fn == nil || len(from.fn.Spec().Output) == 0 || written.Select != nil || written.OrElse != nil || written.When != nil {
		return nil // the result has another shape than the function's, or may be null
	}
	path, mapped := u.Path, false
	if written.ForEach != nil {
		if len(path) == 0 || path[0].Kind != refs.At && path[0].Kind != refs.Each {
			return nil
		}
		mapped = path[0].Kind == refs.Each
		path = path[1:]
	}
	elements := make([]steps.Element, len(path))
	for i, segment := range path {
		if segment.Kind == refs.Flat || mapped && segment.Kind == refs.Each {
			return nil
		}
		elements[i] = steps.Element{Key: segment.Key, Index: segment.Kind == refs.At, Each: segment.Kind == refs.Each, Optional: segment.Optional}
		if segment.Kind == refs.At {
			elements[i].Key = itoa(segment.Index)
		}
	}
	types, f := from.fn.Produces(elements)
	if f != nil {
		f = f.Under("")
		f.Code, f.At = fault.BadReference, u.At
		c.faults.add(f)
		return nil
	}
	if mapped {
		return []string{"array"}
	}
	return types
}

// withCommon appends the members of `common` to an arguments object.
func withCommon(args, common []byte) []byte {
	if len(common) == 0 {
		return args
	}
	return appendCommon(append(make([]byte, 0, len(args)+len(common)+1), args...), common)
}

// appendCommon does so in place.
func appendCommon(args, common []byte) []byte {
	if len(common) == 0 {
		return args
	}
	args = args[:len(args)-1]
	if args[len(args)-1] != '{' {
		args = append(args, ',')
	}
	return append(append(args, common...), '}')
}
