package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/steps"
)

// check looks for something in a configuration that stops nothing, and is probably a mistake.
type check struct {
	what    string // what is looked for
	when    moment
	serving bool // for servers only
	unseen  bool // what is missing may be in a source that is down, which the fault then says
	find    func(s *subject) []*fault.Error
}

// moment is when a check can be made.
type moment int

const (
	atStart     moment = iota // before the sources are ready
	whenReady                 // when no source is starting
	whenChanged               // as whenReady, and after each change of the sources
)

// checks are all of them. A start, a reload and doctor report what they find; so does onecall tools, and, of what should guard a function,
// a command that calls functions. The faults name the remedy.
var checks = []check{
	{what: "groups on a surface without dispatchers", when: atStart, serving: true, find: (*subject).ineffectiveGroups},
	{what: "a budget of sessions where there are none", when: atStart, serving: true, find: (*subject).ineffectiveSession},
	{what: "tokens that may approve, but see nobody else's runs", when: whenReady, find: (*subject).idleApprovers},
	{what: "patterns under functions, includeTools and excludeTools that match nothing", when: whenReady, find: (*subject).unusedSettings},
	{what: "rules of the hook that guard nothing", when: whenReady, find: (*subject).unusedRules},
	{what: "dispatchers under another name than their group", when: whenReady, find: (*subject).renamedGroups},
	{what: "groups that match nothing", when: whenReady, unseen: true, find: (*subject).unusedGroups},
	{what: "aliases and hoisted names of arguments that no function has", when: whenReady, unseen: true, find: (*subject).unusedNames},
	{what: "rungs that name no function or cannot be judged", when: whenReady, unseen: true, find: (*subject).suspectRungs},
	{what: "an undo that cannot be called", when: whenReady, unseen: true, find: (*subject).unusedUndoes},
	{what: "approval of calls that nobody makes", when: whenReady, unseen: true, find: (*subject).idleApprovals},
	{what: "labels of values that no result has, and roles of arguments that no function has", when: whenReady, unseen: true,
		find: (*subject).unknownLabels},
	{what: "labels and roles that no flow rule names", when: whenReady, find: (*subject).unruledLabels},
	{what: "flow rules that no function can break", when: whenReady, find: (*subject).idleFlows},
	{what: "patterns of a token that match nothing", when: whenReady, find: (*subject).unusedTokenFunctions},
	{what: "saved chains that cannot be used, or whose short name means a function", when: whenReady, find: (*subject).suspectChains},
	{what: "too many functions as tools of their own", when: whenReady, serving: true, find: (*subject).manyFlatTools},
	{what: "functions that clients over HTTP do not see", when: whenChanged, serving: true, find: (*subject).hiddenFunctions},
}

// subject is what the checks look at: an app at one moment.
type subject struct {
	*App
	registry *steps.Registry
	names    []string // of all functions
	absent   []string // the sources whose functions are unknown
	down     []string // those of them that should be there, with their state
}

func (a *App) subject() *subject {
	registry, sources := a.Catalog.Whole()
	s := &subject{App: a, registry: registry}
	for _, info := range sources {
		switch info.State {
		case steps.StateReady, steps.StateIdle:
			continue
		case steps.StateDisabled, steps.StateLocked: // absent on purpose, although there may be settings for it
		default:
			s.down = append(s.down, fmt.Sprintf("%s, which is %s", info.Name, info.State))
		}
		s.absent = append(s.absent, info.Name)
	}
	for _, entry := range s.registry.All() {
		s.names = append(s.names, entry.Spec().Name)
	}
	return s
}

// found returns what the checks of a moment find, in the order of the file; what is not in it comes last.
func (a *App) found(when moment) (faults []*fault.Error) {
	s := a.subject()
	var elsewhere []*fault.Error
	for _, c := range checks {
		if c.when != when || c.serving && !a.process.serve {
			continue
		}
		for _, f := range c.find(s) {
			if c.unseen && len(s.down) > 0 {
				f.Message += " (not looked for in " + strings.Join(s.down, ", ") + ")"
			}
			if f.At == "" {
				elsewhere = append(elsewhere, f)
				continue
			}
			faults = append(faults, a.config.FaultAt("", f))
		}
	}
	return append(config.InOrder(faults), elsewhere...)
}

// Suspects returns what is probably a mistake in the configuration and the saved chains. Call it when no source is starting.
func (a *App) Suspects() []*fault.Error { return a.found(whenReady) }

// ineffectiveGroups finds groups, autodispatch or ungrouped on a surface that ignores them. Over HTTP, a client may ask for another
// surface.
func (s *subject) ineffectiveGroups() []*fault.Error {
	surface := surfaceOf(&s.config.Config)
	if surface == mcp.SurfaceDispatch || s.process.overHTTP {
		return nil
	}
	for _, key := range []string{"/groups", "/autodispatch"} {
		if s.config.Has(key) && surface != mcp.SurfaceHybrid {
			return []*fault.Error{fault.New(fault.BadRequest, "the surface %s has no dispatchers: this is for dispatch and hybrid", surface).
				Under(key)}
		}
	}
	if s.config.Has("/ungrouped") {
		return []*fault.Error{fault.New(fault.BadRequest, "this is for the surface dispatch, not for %s", surface).Under("/ungrouped")}
	}
	return nil
}

// ineffectiveSession finds a budget of sessions if clients have none.
func (s *subject) ineffectiveSession() []*fault.Error {
	if !s.process.stateless || config.Or(s.config.Session.MaxTokens, 0) == 0 {
		return nil
	}
	return []*fault.Error{fault.New(fault.BadRequest, "with --stateless no client has a session, so this limit has no effect").
		Under("/session/maxTokens")}
}

func (s *subject) renamedGroups() []*fault.Error { return s.dispatch.Renamed() }

func (s *subject) unusedGroups() []*fault.Error { return s.dispatch.Unmatched(s.registry) }

// hiddenFunctions finds functions that no client over HTTP sees, if none of them has a token.
func (s *subject) hiddenFunctions() []*fault.Error {
	if !s.process.overHTTP || s.config.Access.ByToken() {
		return nil
	}
	tier := config.TierOf(s.config.Access.HTTP, steps.TierRead)
	hidden, needed := 0, tier
	all := s.registry.All()
	for _, entry := range all {
		if minimum := entry.Spec().MinimumTier(); minimum > tier {
			hidden, needed = hidden+1, max(needed, minimum)
		}
	}
	if hidden == 0 {
		return nil
	}
	return []*fault.Error{fault.New(fault.BadRequest,
		"%d of %d functions are not shown to clients over HTTP, whose tier is %s: access: {http: %s} shows all to each of them, and "+
			"tokens (access.tokens) to some",
		hidden, len(all), tier, needed)}
}

// manyTools is the number of flat tools that causes a warning: a model reads their schemas at each turn.
const manyTools = 100

// manyFlatTools finds a surface that shows clients too many functions as tools.
func (s *subject) manyFlatTools() []*fault.Error {
	surface, tier := surfaceOf(&s.config.Config), s.config.Access.MaxTier(s.process.overHTTP)
	view := s.registry.View(func(spec *steps.Spec) bool { return spec.MinimumTier() <= tier && !spec.ChainOnly })
	count := view.Len()
	switch surface {
	case mcp.SurfaceChain:
		return nil
	case mcp.SurfaceDispatch:
		count = len(s.dispatch.Arrange(view).Rest)
	}
	if count <= manyTools {
		return nil
	}
	remedy := "surface: chain shows three tools for all"
	if surface == mcp.SurfaceDispatch {
		remedy = "groups, or autodispatch: true, combine them in dispatchers; ungrouped: hide leaves them to chain; surface: chain " +
			"shows three tools for all"
	}
	return []*fault.Error{fault.New(fault.BadRequest,
		"the surface %s shows %d functions as separate tools, whose schemas a model reads at each turn: %s", surface, count, remedy)}
}

// warnUnmatchedGuards warns of settings that should guard a function but guard none, such as those with a misspelled name. A replay knows
// only the functions that were recorded, so it does not warn.
func (a *App) warnUnmatchedGuards() {
	if a.cassette != nil {
		return
	}
	var guards []string
	for i := range a.config.Functions {
		if c := &a.config.Functions[i].Config; c.Approve != nil || c.Tier != nil || c.Hide != nil || c.Undo != nil ||
			c.Gives != nil || c.Takes != nil {
			guards = append(guards, fault.Key("/functions", a.config.Functions[i].Name))
		}
	}
	for i := range a.config.Flows.Rules {
		guards = append(guards, fault.Index("/flows/rules", i))
	}
	if len(guards) == 0 {
		return
	}
	for _, f := range a.Suspects() {
		if slices.Contains(guards, guarded(f.At)) {
			a.warn(f)
		}
	}
}

// guarded returns the place of the setting that a fault is about, without the key in it.
func guarded(at string) string {
	for _, key := range []string{"/approve", "/gives", "/takes", "/from", "/to"} {
		at = strings.TrimSuffix(at, key)
	}
	return at
}
