package app

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/pattern"
)

// unusedNames finds common aliases whose argument no function has, and hoisted names that no function has as an argument.
func (s *subject) unusedNames() (unused []*fault.Error) {
	c, registry := s.config, s.registry
	var known []string
	for _, entry := range registry.All() {
		known = append(known, entry.Properties()...)
	}
	slices.Sort(known)
	known = slices.Compact(known)
	checkArgument := func(at, name string) {
		if slices.ContainsFunc(registry.All(), func(e *steps.Entry) bool { return e.Argument(name) != "" }) {
			return
		}
		f := fault.New(fault.BadRequest, "no function declares the argument %q", fault.Clip(name, 60)).Under(at)
		f.Nearest = fault.Nearest(name, known, 3)
		unused = append(unused, f)
	}
	for alias, name := range c.Aliases {
		checkArgument(fault.Key("/aliases", alias), name)
	}
	for i, name := range c.Hoist {
		checkArgument(fault.Index("/hoist", i), name)
	}
	return unused
}

// unusedUndoes finds settings that name an undo which cannot be called: no function, or a saved chain. Functions of absent sources may be
// there later.
func (s *subject) unusedUndoes() (unused []*fault.Error) {
	c, registry, absent := s.config, s.registry, s.absent
	for i := range c.Functions {
		undo := c.Functions[i].Config.Undo
		if undo == nil || slices.ContainsFunc(absent, func(source string) bool { return strings.HasPrefix(*undo.Fn, source+".") }) {
			continue
		}
		called, err := registry.Resolve(*undo.Fn)
		f, _ := fault.As(err)
		if err == nil && called.Spec().Saved != nil {
			f = fault.New(fault.NotSupported, "%s is a saved chain, and an undo must be a function", *undo.Fn)
		}
		if f != nil {
			f.Message = "nothing is undone: " + f.Message
			unused = append(unused, f.Under(fault.Key("/functions", c.Functions[i].Name)+"/undo/fn"))
		}
	}
	return unused
}

// idleApprovals finds settings that ask for approval of calls that none of their functions makes, such as approve: write of a function that
// only reads.
func (s *subject) idleApprovals() (idle []*fault.Error) {
	c, registry := s.config, s.registry
	for i := range c.Functions {
		name, approve := c.Functions[i].Name, config.Or(c.Functions[i].Config.Approve, "")
		if approve != steps.ApproveWrite && approve != steps.ApproveDestroy {
			continue
		}
		example, counts, count := "", map[steps.Effect]int{}, 0
		for _, entry := range registry.All() {
			if spec := entry.Spec(); spec.Approve == approve && pattern.Matches(name, spec.Name) {
				example, count = spec.Name, count+1
				counts[spec.Effect]++
			}
		}
		what, remedy := "only reads", "approve: always asks for reads, too"
		switch {
		case count == 0, counts[steps.Destroy] > 0, approve == steps.ApproveWrite && counts[steps.Write] > 0:
			continue
		case counts[steps.Write] > 0:
			what, remedy = "destroys nothing", "approve: write asks for all that writes"
		}
		if count > 1 {
			example = fmt.Sprintf("each of the %d functions", count)
		}
		idle = append(idle, fault.New(fault.BadRequest, "nothing asks for approval: %s %s. %s; effect corrects what a function does",
			example, what, remedy).Under(fault.Key("/functions", name)+"/approve"))
	}
	return idle
}

// unusedRules finds rules of the hook that match no function and could match none of an absent source. The nearest names of a rule for a
// server's own name, which the hook does not know, are those that the functions have here.
func (s *subject) unusedRules() (unused []*fault.Error) {
	c, names := s.config, s.names
	for at, list := range map[string][]string{"/hook/ask": c.Hook.Ask, "/hook/deny": c.Hook.Deny} {
		for _, f := range (steps.Rights{Functions: strings.Join(list, " ")}).Unused(names, s.absent) {
			f = c.FaultAt(at, f)
			i, _ := strconv.Atoi(strings.TrimPrefix(f.At, at+"/")) // Unused has written it
			if slices.ContainsFunc(names, func(name string) bool { return steps.MatchesSpelling(list[i], name) }) {
				continue
			}
			f.Message += ", and guards nothing"
			if here := namesOfOwn(s.registry, list[i]); here != nil {
				f.Nearest = here
			}
			unused = append(unused, f)
		}
	}
	return unused
}

// namesOfOwn returns the names of at most 3 functions whose servers give them a name that matches a pattern.
func namesOfOwn(registry *steps.Registry, rule string) (names []string) {
	for _, entry := range registry.All() {
		if spec := entry.Spec(); spec.OwnName != "" && len(names) < 3 && pattern.Matches(rule, spec.OwnName) {
			names = append(names, spec.Name)
		}
	}
	return names
}
