package app

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/pattern"
)

// UnusedSettings returns faults for settings and rules that match no function and could match none of an absent source, and for groups,
// aliases and hoisted names that match no current function. Call it when no source is starting.
func (a *App) UnusedSettings() []*fault.Error {
	var names, absent, down []string
	for _, info := range a.Catalog.Sources() {
		switch info.State {
		case steps.StateReady, steps.StateIdle:
			continue
		case steps.StateDisabled: // absent on purpose, although settings may remain for it
		default:
			down = append(down, fmt.Sprintf("%s, which is %s", info.Name, info.State))
		}
		absent = append(absent, info.Name) // its functions are unknown
	}
	registry := a.Catalog.Registry()
	for _, entry := range registry.All() {
		names = append(names, entry.Spec().Name)
	}
	unused := append(unusedSettings(a.config, a.settings, names, a.toolsOf, absent), unusedRules(a.config, registry, names, absent)...)
	for _, f := range a.dispatch.Renamed() {
		unused = append(unused, a.config.FaultAt("", f))
	}
	for _, f := range slices.Concat(a.dispatch.Unmatched(registry), unusedNames(a.config, registry), a.suspectRungs(registry),
		unusedUndoes(a.config, registry, absent), idleApprovals(a.config, registry)) {
		if len(down) > 0 {
			f.Message += " (not looked for in " + strings.Join(down, ", ") + ")"
		}
		unused = append(unused, a.config.FaultAt("", f))
	}
	return append(config.InOrder(unused), a.SuspectChains()...)
}

// unusedNames returns faults for common aliases whose argument no function has, and for hoisted names that no function has as an argument.
func unusedNames(c *config.File, registry *steps.Registry) (unused []*fault.Error) {
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

// unusedUndoes returns faults for settings that name an undo which cannot be called: no function, or a saved chain. Functions of absent
// sources may be there later.
func unusedUndoes(c *config.File, registry *steps.Registry, absent []string) (unused []*fault.Error) {
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

// idleApprovals returns faults for settings that ask for approval of calls that none of their functions makes, such as approve: write of a
// function that only reads.
func idleApprovals(c *config.File, registry *steps.Registry) (idle []*fault.Error) {
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

// unusedRules returns faults for rules of the hook that match no function and could match none of an absent source. The nearest names of
// a rule for a server's own name, which the hook does not know, are those that the functions have here.
func unusedRules(c *config.File, registry *steps.Registry, names, absent []string) (unused []*fault.Error) {
	for at, list := range map[string][]string{"/hook/ask": c.Hook.Ask, "/hook/deny": c.Hook.Deny} {
		for _, f := range (steps.Rights{Functions: strings.Join(list, " ")}).Unused(names, absent) {
			f = c.FaultAt(at, f)
			i, _ := strconv.Atoi(strings.TrimPrefix(f.At, at+"/")) // Unused has written it
			if slices.ContainsFunc(names, func(name string) bool { return steps.MatchesSpelling(list[i], name) }) {
				continue
			}
			f.Message += ", and guards nothing"
			if here := namesOfOwn(registry, list[i]); here != nil {
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

// hiddenFunctions returns a warning about functions hidden from HTTP clients if none of them has a token; otherwise nil.
func (a *App) hiddenFunctions() *fault.Error {
	if !a.process.overHTTP || a.config.Access.ByToken() {
		return nil
	}
	tier := config.TierOf(a.config.Access.HTTP, steps.TierRead)
	hidden, needed := 0, tier
	all := a.Catalog.Registry().All()
	for _, entry := range all {
		if minimum := entry.Spec().MinimumTier(); minimum > tier {
			hidden, needed = hidden+1, max(needed, minimum)
		}
	}
	if hidden == 0 {
		return nil
	}
	return fault.New(fault.BadRequest,
		"%d of %d functions are not shown to clients over HTTP, whose tier is %s: access: {http: %s} shows all to each of them, and "+
			"tokens (access.tokens) to some",
		hidden, len(all), tier, needed)
}

// manyTools is the number of flat tools that causes a warning: a model reads their schemas at each turn.
const manyTools = 100

// manyFlatTools returns a warning if the surface shows clients of a tier too many functions as tools; otherwise nil.
func (a *App) manyFlatTools(tier steps.Tier) *fault.Error {
	surface := surfaceOf(&a.config.Config)
	view := a.Catalog.Registry().View(func(spec *steps.Spec) bool { return spec.MinimumTier() <= tier })
	count := view.Len()
	switch surface {
	case mcp.SurfaceChain:
		return nil
	case mcp.SurfaceDispatch:
		count = len(a.dispatch.Arrange(view).Rest)
	}
	if count <= manyTools {
		return nil
	}
	remedy := "surface: chain shows three tools for all"
	if surface == mcp.SurfaceDispatch {
		remedy = "groups, or autodispatch: true, combine them in dispatchers; ungrouped: hide leaves them to chain; surface: chain " +
			"shows three tools for all"
	}
	return fault.New(fault.BadRequest, "the surface %s shows %d functions as separate tools, whose schemas a model reads at each turn: %s",
		surface, count, remedy)
}

// warnUnmatchedGuards warns of settings that should guard a function but guard none, such as those with a misspelled name. A replay knows
// only the functions that were recorded, so it does not warn.
func (a *App) warnUnmatchedGuards() {
	if a.cassette != nil {
		return
	}
	var guards []string
	for i := range a.config.Functions {
		if c := &a.config.Functions[i].Config; c.Approve != nil || c.Tier != nil || c.Hide != nil || c.Undo != nil {
			guards = append(guards, fault.Key("/functions", a.config.Functions[i].Name))
		}
	}
	if len(guards) == 0 {
		return
	}
	for _, f := range a.UnusedSettings() {
		if slices.Contains(guards, strings.TrimSuffix(f.At, "/approve")) {
			a.warn(f)
		}
	}
}
