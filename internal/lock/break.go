package lock

import (
	"slices"

	"github.com/onecall-mcp/onecall/chain"
)

// Break is a change that breaks a chain.
type Break struct {
	*Change
	Step string // the JSON Pointer of a step that calls the function; "": the chain reads its result somewhere
}

// Breaks returns those of the changes of one function that break a chain, by what it uses of the function. Arguments whose values stand in
// the chain are not looked at if only their values count: compiling the chain with the function as it is now says whether they fit.
// Nothing is known of the members of an object that is given by a reference: a new optional member does not break it, and any other change
// within it does.
func Breaks(changes []Change, use *chain.FunctionUse) (list []Break) {
	for i := range changes {
		c := &changes[i]
		if c.Rule == FunctionRemoved || c.Rule == EffectRaised || c.Rule == EffectLowered {
			list = append(list, Break{c, firstStep(use)})
			continue
		}
		if c.readBy(use.Reads) {
			list = append(list, Break{Change: c})
		}
		for j := range use.Calls {
			if c.breaksCall(use.Calls[j].Given) {
				list = append(list, Break{c, use.Calls[j].Step})
			}
		}
	}
	return list
}

func firstStep(use *chain.FunctionUse) string {
	if len(use.Calls) == 0 {
		return ""
	}
	return use.Calls[0].Step
}

// readBy reports whether a change of the result breaks a chain that reads these paths.
func (c *Change) readBy(paths [][]string) bool {
	switch c.Rule {
	case ResultUndeclared:
		return slices.ContainsFunc(paths, func(path []string) bool { return len(path) > 0 })
	case ResultRemoved, ResultOptional, ResultChanged:
		return slices.ContainsFunc(paths, func(path []string) bool { return isWithin(path, c.Path) })
	}
	return false
}

// breaksCall reports whether a change of the arguments breaks a call that gives these.
func (c *Change) breaksCall(given []chain.Given) bool {
	isGiven := func(g chain.Given) bool { return isWithin(g.Path, c.Path) }
	holds := func(g chain.Given) bool { return !g.Literal && len(g.Path) < len(c.Path) && isWithin(c.Path, g.Path) } // it may, or may not
	switch c.Rule {
	case ArgumentRequired:
		parent := c.Path[:len(c.Path)-1]
		isThere := len(parent) == 0 || slices.ContainsFunc(given, func(g chain.Given) bool { return isWithin(g.Path, parent) })
		return slices.ContainsFunc(given, holds) || isThere && !slices.ContainsFunc(given, isGiven)
	case ArgumentRemoved:
		return slices.ContainsFunc(given, isGiven) || slices.ContainsFunc(given, holds)
	case ArgumentAdded:
		return slices.ContainsFunc(given, func(g chain.Given) bool { return !g.Literal && isGiven(g) })
	case ArgumentNarrowed:
		return slices.ContainsFunc(given, func(g chain.Given) bool {
			return holds(g) || !g.Literal && isGiven(g) && (c.inside || len(g.Path) == len(c.Path))
		})
	case ArgumentsClosed:
		return slices.ContainsFunc(given, func(g chain.Given) bool {
			return holds(g) || !g.Literal && isGiven(g) && len(g.Path) == len(c.Path)
		})
	}
	return false
}

// isWithin reports whether a path is another, or leads on from it. "*" is each element, and each number.
func isWithin(path, other []string) bool {
	if len(path) < len(other) {
		return false
	}
	for i, key := range other {
		if key != path[i] && key != "*" && path[i] != "*" {
			return false
		}
	}
	return true
}
