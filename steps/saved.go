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

// MaxSavedDepth bounds how deep saved chains call each other.
const MaxSavedDepth = 8

// SavedChain makes a function of a chain. Nobody calls it: an engine runs its steps as a part of the chain that names it. A
// registry finds it only after LinkChains.
type SavedChain struct {
	Text   json.RawMessage // the chain
	Names  []string        // the functions that its steps call, as they name them
	Undoes []string        // the functions that its steps' undo calls
	Tool   bool            // MCP clients see it as a tool on every surface
	Prompt bool            // MCP clients see it as a prompt

	calls []string // all functions that it may come to call, by their canonical names; set by LinkChains
}

// Calls are the canonical names of the functions that the chain may call, those of saved chains within included.
func (s *SavedChain) Calls() []string { return s.calls }

// LinkChains returns a clone in which each saved chain has the strongest effect and tier of the functions that it calls. One whose
// functions are not all there, that calls itself, or that nests too deep is left out, and tell is told why; nil: nobody is told.
func (r *Registry) LinkChains(tell func(name string, why *fault.Error)) *Registry {
	if !slices.ContainsFunc(r.entries, func(e *Entry) bool { return e != nil && e.spec.Saved != nil }) {
		return r
	}
	l := &linker{Registry: r, done: map[*Entry]*linked{}}
	c := r.clone()
	c.broken = nil
	for i, e := range c.entries {
		if e == nil || e.spec.Saved == nil {
			continue
		}
		result := l.link(e, nil)
		if c.entries[i] = result.entry; result.why == nil {
			continue
		}
		c.entries[i] = nil
		c.length--
		c.broken = append(c.broken, result)
		if tell != nil {
			tell(e.spec.Name, result.why)
		}
	}
	return c
}

// linker links the saved chains of a registry, each once.
type linker struct {
	*Registry
	done map[*Entry]*linked
}

// linked is a saved chain with what follows from the functions that it calls; of a broken one as far as they are there.
type linked struct {
	entry *Entry
	depth int          // of saved chains, itself included
	why   *fault.Error // it is broken; nil: it is not
}

// link links one chain; around are the chains that have led to it.
func (l *linker) link(e *Entry, around []*Entry) *linked {
	if known := l.done[e]; known != nil {
		return known
	}
	if at := slices.Index(around, e); at >= 0 {
		names := make([]string, 0, len(around)+1)
		for _, one := range append(slices.Clone(around[at:]), e) {
			names = append(names, one.spec.Name)
		}
		return &linked{entry: e, why: fault.New(fault.BadRequest, "saved chains call each other in a cycle: %s", strings.Join(names, " → "))}
	}
	saved, spec := *e.spec.Saved, *e.spec
	saved.calls, spec.Saved = nil, &saved
	spec.Effect, spec.EffectDeclared, spec.Idempotent, spec.Local = Read, true, true, true
	result := &linked{entry: e.as(&spec), depth: 1}
	for _, name := range saved.Names {
		called := l.called(name, &saved, append(slices.Clone(around), e))
		result.take(called)
		if called.entry != nil {
			spec.cover(called.entry.spec)
		}
	}
	for _, name := range saved.Undoes {
		called := l.called(name, &saved, nil)
		if result.take(called); called.depth > 0 && result.why == nil {
			result.why = fault.New(fault.NotSupported, "undo names the saved chain %s: name a function", name)
		}
	}
	if result.depth > MaxSavedDepth && result.why == nil {
		result.why = fault.New(fault.LimitExceeded, "saved chains nest deeper than %d", MaxSavedDepth)
	}
	slices.Sort(saved.calls)
	saved.calls = slices.Compact(saved.calls)
	l.done[e] = result
	return result
}

// called is what a chain calls by a name, which is added to its calls.
func (l *linker) called(name string, by *SavedChain, around []*Entry) *linked {
	entry, err := l.Resolve(name)
	if err != nil {
		by.calls = append(by.calls, name) // which nobody has
		f, _ := fault.As(err)
		return &linked{why: f}
	}
	if entry.spec.Saved == nil {
		by.calls = append(by.calls, entry.spec.Name)
		return &linked{entry: entry}
	}
	inner := l.link(entry, around)
	by.calls = append(by.calls, inner.entry.spec.Saved.calls...)
	if inner.why == nil {
		by.calls = append(by.calls, entry.spec.Name)
	}
	return inner
}

// take adds to a chain how deep what it calls is, and why that is broken.
func (l *linked) take(called *linked) {
	l.depth = max(l.depth, called.depth+1)
	if l.why == nil {
		l.why = called.why
	}
}

// whyBroken says of a name that it is a saved chain that cannot be used; nil: it is none.
func (r *Registry) whyBroken(name string) *fault.Error {
	for _, b := range r.broken {
		full := b.entry.spec.Name
		if folded := FoldName(name); folded != FoldName(full) && folded != FoldName(strings.TrimPrefix(full, ChainSource+".")) {
			continue
		}
		f := b.why.Under("")
		f.Message = "the saved chain " + full + " cannot be used: " + f.Message
		return f
	}
	return nil
}

// cover makes a chain's spec hold for a function that it calls.
func (s *Spec) cover(called *Spec) {
	if called.Effect == Destroy || s.Effect == Read {
		s.Effect = called.Effect
	}
	s.EffectDeclared = s.EffectDeclared && called.EffectDeclared
	s.Idempotent = s.Idempotent && called.Repeatable()
	s.Local = s.Local && called.Local
	s.Tier = max(cmp.Or(s.Tier, TierRead), called.MinimumTier())
}

// as is the entry with another spec of the same schemas.
func (e *Entry) as(spec *Spec) *Entry {
	own := *e
	own.compiled = &compiled{spec: spec, input: e.input, prompt: e.prompt, maxResult: e.maxResult, signature: e.signature}
	return &own
}

// withoutChains leaves the saved chains out of a view that call what is not in it. keep is what the view accepts.
func (r *Registry) withoutChains(keep func(*Spec) bool) {
	r.broken = slices.DeleteFunc(slices.Clone(r.broken), func(b *linked) bool {
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
