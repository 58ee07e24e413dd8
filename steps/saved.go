package steps

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// ChainSource is the source of saved chains: their names begin with it.
const ChainSource = "chain"

// MaxSavedDepth bounds how deeply saved chains call each other.
const MaxSavedDepth = 8

// SavedChain is a chain that is used as a function. It is never called itself: an engine runs its steps as part of the chain that
// names it. LinkChains sets its effect and tier, and leaves it out if it cannot be used.
type SavedChain struct {
	Text   json.RawMessage // the chain
	Names  []string        // the functions that its steps call, as the steps name them
	Undoes []string        // the functions that its steps' undo calls
	Tool   bool            // MCP clients see it as a tool on every surface
	Prompt bool            // MCP clients see it as a prompt
	Signed string          // the id of the accepted key that has signed it, with all chains that it calls; "": none

	calls []string // canonical names of all functions that it may call; set by LinkChains
}

// Calls returns the canonical names of the functions that the chain may call, including those of nested saved chains.
func (s *SavedChain) Calls() []string { return s.calls }

// LinkChains returns a clone in which each saved chain has the strongest effect and tier of the functions that it calls. A
// chain is left out if it calls a missing function, calls itself or nests too deeply; report, which may be nil, then
// receives the reason.
func (r *Registry) LinkChains(report func(name string, why *fault.Error)) *Registry {
	if !slices.ContainsFunc(r.entries, func(e *Entry) bool { return e != nil && e.spec.Saved != nil }) {
		return r
	}
	l := &linker{Registry: r, done: map[*Entry]*linkResult{}}
	c := r.clone()
	c.broken = nil
	for i, e := range c.entries {
		if e == nil || e.spec.Saved == nil {
			continue
		}
		result := l.link(e, nil)
		if c.entries[i] = result.entry; result.fault == nil { // the linked chain; a broken one is removed below
			continue
		}
		c.entries[i] = nil
		c.length--
		c.broken = append(c.broken, result)
		if report != nil {
			report(e.spec.Name, result.fault)
		}
	}
	return c
}

// linker links each saved chain of a registry once.
type linker struct {
	*Registry
	done map[*Entry]*linkResult
}

// linkResult is a linked chain, or the reason why it is broken.
type linkResult struct {
	entry *Entry
	depth int          // the depth of nested saved chains, including this one; 0: not a saved chain
	fault *fault.Error // why it is broken; nil: it is not
}

// link links one chain. callers are the chains that call it, outermost first.
func (l *linker) link(e *Entry, callers []*Entry) *linkResult {
	if done := l.done[e]; done != nil {
		return done
	}
	if at := slices.Index(callers, e); at >= 0 {
		names := make([]string, 0, len(callers)+1)
		for _, caller := range append(slices.Clone(callers[at:]), e) {
			names = append(names, caller.spec.Name)
		}
		f := fault.New(fault.BadRequest, "saved chains call each other in a cycle: %s", strings.Join(names, " → "))
		return &linkResult{entry: e, fault: f}
	}
	saved, spec := *e.spec.Saved, *e.spec
	saved.calls, spec.Saved = nil, &saved
	spec.Effect, spec.EffectDeclared, spec.Idempotent, spec.Local = Read, true, true, true
	result := &linkResult{entry: e.withSpec(&spec), depth: 1}
	for _, name := range saved.Names {
		called := l.linkCallee(name, &saved, append(slices.Clone(callers), e))
		result.add(called)
		if called.entry != nil {
			spec.include(called.entry.spec)
		}
	}
	for _, name := range saved.Undoes {
		if undo, err := l.Resolve(name); err == nil && undo.spec.Saved != nil && result.fault == nil {
			result.fault = fault.New(fault.NotSupported, "undo names the saved chain %s: name a function", name)
		}
		result.add(l.linkCallee(name, &saved, append(slices.Clone(callers), e)))
	}
	if result.depth > MaxSavedDepth && result.fault == nil {
		result.fault = fault.New(fault.LimitExceeded, "saved chains nest deeper than %d", MaxSavedDepth)
	}
	slices.Sort(saved.calls)
	saved.calls = slices.Compact(saved.calls)
	l.done[e] = result
	return result
}

// linkCallee resolves a name that a chain calls and adds it to the chain's calls.
func (l *linker) linkCallee(name string, saved *SavedChain, callers []*Entry) *linkResult {
	entry, err := l.Resolve(name)
	if err != nil {
		saved.calls = append(saved.calls, name) // no view has a function of this name, so dropChains hides the broken chain from all views
		f, _ := fault.As(err)
		return &linkResult{fault: f}
	}
	if entry.spec.Saved == nil {
		saved.calls = append(saved.calls, entry.spec.Name)
		return &linkResult{entry: entry}
	}
	inner := l.link(entry, callers)
	saved.calls = append(saved.calls, inner.entry.spec.Saved.calls...)
	if inner.fault == nil {
		saved.calls = append(saved.calls, entry.spec.Name)
	}
	return inner
}

// add adds the depth and the fault of a called chain.
func (r *linkResult) add(called *linkResult) {
	r.depth = max(r.depth, called.depth+1)
	if r.fault == nil {
		r.fault = called.fault
	}
}

// brokenChain returns the fault of a saved chain that cannot be used; nil if the name is not one.
func (r *Registry) brokenChain(name string) *fault.Error {
	for _, b := range r.broken {
		chain := b.entry.spec.Name
		if folded := FoldName(name); folded != FoldName(chain) && folded != FoldName(strings.TrimPrefix(chain, ChainSource+".")) {
			continue
		}
		f := b.fault.Under("")
		f.Message = "the saved chain " + chain + " cannot be used: " + f.Message
		return f
	}
	return nil
}

// include raises a chain's effect and tier to those of a function that it calls.
func (s *Spec) include(called *Spec) {
	if called.Effect == Destroy || s.Effect == Read {
		s.Effect = called.Effect
	}
	s.EffectDeclared = s.EffectDeclared && called.EffectDeclared
	s.Idempotent = s.Idempotent && called.Repeatable()
	s.Local = s.Local && called.Local
	s.Tier = max(cmp.Or(s.Tier, TierRead), called.MinimumTier())
}

// withSpec returns the entry with another spec that has the same schemas.
func (e *Entry) withSpec(spec *Spec) *Entry {
	clone := *e
	clone.compiledFunction = &compiledFunction{spec: spec, input: e.input, prompt: e.prompt, maxResult: e.maxResult, signature: e.signature}
	return &clone
}

// dropChains drops the saved chains that call functions outside the view. keep is the view's filter.
func (r *Registry) dropChains(keep func(*Spec) bool) {
	r.broken = slices.DeleteFunc(slices.Clone(r.broken), func(b *linkResult) bool {
		return !keep(b.entry.spec) || !r.hasAll(b.entry.spec.Saved.calls)
	})
	for i, e := range r.entries {
		if e != nil && e.spec.Saved != nil && !r.hasAll(e.spec.Saved.calls) {
			r.entries[i] = nil
			r.length--
		}
	}
}

func (r *Registry) hasAll(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !r.Has(name) })
}
