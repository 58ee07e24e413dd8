package chain

import (
	"slices"
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
	for _, segment := range path {
		if segment.Kind == refs.Flat || mapped && segment.Kind == refs.Each {
			return nil
		}
	}
	types, f := from.fn.Produces(elementsOf(path))
	if f != nil {
		f = f.Under("")
		f.Code, f.At = fault.BadReference, u.At
		if remedy := u.Remedy(f.Available); remedy != "" {
			f.Message += ". " + remedy
		}
		c.faults.add(f)
		return nil
	}
	if mapped {
		return []string{"array"}
	}
	return types
}

// elementsOf writes a reference's path, without [**], as steps take it.
func elementsOf(path []refs.Segment) []steps.Element {
	elements := make([]steps.Element, len(path))
	for i, segment := range path {
		elements[i] = steps.Element{Key: segment.Key, Index: segment.Kind == refs.At, Each: segment.Kind == refs.Each, Optional: segment.Optional}
		if segment.Kind == refs.At {
			elements[i].Key = itoa(segment.Index)
		}
	}
	return elements
}

// commonFor gives the members of `common` that the function declares and the step does not set, as `"k":v,"k2":v2`, each
// argument once.
func (c *compiler) commonFor(entry *steps.Entry, args []byte) []byte {
	var common []byte
	for i, m := range c.common {
		declared := entry.Argument(m.name)
		if declared == "" {
			continue
		}
		c.usedCommon[m.name] = true
		if gives(entry, args, declared) || c.givenBefore(entry, declared, i) {
			continue
		}
		if len(common) > 0 {
			common = append(common, ',')
		}
		common = append(appendString(common, m.name), ':')
		common = append(common, m.raw...)
	}
	return common
}

// givenBefore tells whether a member of `common` before the one at i stands for the same argument of a function; a fault
// where their values differ, as nobody can tell which is meant.
func (c *compiler) givenBefore(entry *steps.Entry, declared string, i int) bool {
	first := slices.IndexFunc(c.common[:i], func(m objectMember) bool { return entry.Argument(m.name) == declared })
	if first < 0 {
		return false
	}
	if name, at := c.common[i].name, c.request.commonAt(c.common[i].name); c.common[first].raw != c.common[i].raw && !c.faults.has(at) {
		c.fault(fault.BadRequest, at, "%s and %s are both %s of %s, and not the same: give it once", c.common[first].name, name, declared, entry.Spec().Name)
	}
	return true
}

// gives tells whether arguments hold what the schema declares by that name, in whatever spelling.
func gives(entry *steps.Entry, args []byte, declared string) bool {
	return hasMember(args, func(name string) bool { return name == declared || entry.Argument(name) == declared })
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
