package steps

import (
	"context"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// Provider gives the functions that a request may call. A *Registry returns itself, a *Catalog the functions of its sources, and a
// *View the functions that a caller may use.
type Provider interface {
	// Registry returns the current functions. It returns the same value until something changes.
	Registry() *Registry
	// Starting returns a channel that is closed at the next change if a source is starting; else nil.
	Starting() <-chan struct{}
}

// Registry returns r: a registry is a Provider that never changes.
func (r *Registry) Registry() *Registry { return r }

// Starting returns nil: nothing is starting.
func (r *Registry) Starting() <-chan struct{} { return nil }

// sourceLister is a provider that knows its sources.
type sourceLister interface {
	Sources() []SourceInfo
	settings() *Settings
	missing(credential string) *fault.Error
}

func (c *Catalog) settings() *Settings { return c.options.Settings }

func (v *View) settings() *Settings { return v.catalog.options.Settings }

// sourcesOf returns all sources of a provider. candidates are those that could offer a function with this name: the name begins with the
// source's name, or a setting renames one of the source's functions to it.
func sourcesOf(p Provider, name string) (all, candidates []SourceInfo) {
	s, ok := p.(sourceLister)
	if !ok {
		return nil, nil
	}
	all = s.Sources()
	original := s.settings().originalName(name)
	for _, source := range all {
		isLocked := source.State == StateLocked && FoldName(name) == FoldName(source.Name)
		if beginsWith(name, source.Name) || beginsWith(original, source.Name) || isLocked {
			candidates = append(candidates, source)
		}
	}
	return all, candidates
}

// beginsWith reports whether a function's name begins with a source's name, ignoring case and separators.
func beginsWith(name, source string) bool {
	if len(name) <= len(source) || FoldName(name[:len(source)]) != FoldName(source) {
		return false
	}
	return strings.IndexByte(separators, name[len(source)]) >= 0
}

// Unavailable returns a fault if name may be a function of a source that is unavailable, or of one that the caller could use with a
// credential of its own; else nil.
func Unavailable(p Provider, name string) *fault.Error {
	_, candidates := sourcesOf(p, name)
	for _, source := range candidates {
		if !hasKnownFunctions(source.State) {
			return source.unavailable()
		}
	}
	if v, ok := p.(*View); ok {
		return v.lockedChain(name)
	}
	return nil
}

// AbsentSources returns the names of the sources whose functions may be unknown: those that are down, and those that are there for callers
// with a credential of their own.
func AbsentSources(p Provider) (down, locked []string) {
	all, _ := sourcesOf(p, "")
	for _, source := range all {
		switch {
		case source.State == StateLocked:
			locked = append(locked, source.Name)
		case !hasKnownFunctions(source.State):
			down = append(down, source.Name)
		}
	}
	return down, locked
}

// ClosedBy returns the key of the configuration that would open a missing function; "": there is none, or the caller could not use the
// function then either.
func ClosedBy(p Provider, name string) string {
	var c *Catalog
	keep := func(*Spec) bool { return true }
	switch p := p.(type) {
	case *Catalog:
		c = p
	case *View:
		c, keep = p.catalog, p.keep
	}
	if c == nil || c.options.Closed == nil || c.Registry().HasName(name) { // it is there, and hidden from this caller
		return ""
	}
	would, key := c.options.Closed(name)
	if would == nil {
		return ""
	}
	fn, hidden := c.settings().Apply(Function{Spec: *would})
	if hidden || !keep(&fn.Spec) {
		return ""
	}
	return key
}

// Pending reports whether a missing function may still appear: a source is starting, and the name does not begin with
// another source.
func Pending(p Provider, name string) bool {
	if _, ok := p.(sourceLister); !ok {
		return p.Starting() != nil
	}
	if v, ok := p.(*View); ok && v.plans { // a signed chain appears with the functions that it calls
		return v.Starting() != nil
	}
	all, candidates := sourcesOf(p, name)
	if len(candidates) > 0 && candidates[0].Name != ChainSource { // saved chains appear with the functions that they call
		all = candidates
	}
	return slices.ContainsFunc(all, func(source SourceInfo) bool { return source.State == StateStarting })
}

// Qualified reports whether a name begins with a source, so that no other source can have it.
func Qualified(p Provider, name string) bool {
	_, candidates := sourcesOf(p, name)
	return len(candidates) > 0
}

// Await returns the functions once done accepts them, no source is starting any more, or ctx is done. The callback is called
// for each new registry; nil waits for all sources.
func Await(ctx context.Context, p Provider, done func(*Registry) bool) *Registry {
	for {
		starting := p.Starting() // before the functions are read, so that no change is missed
		registry := p.Registry()
		if starting == nil {
			return registry
		}
		if done != nil && done(registry) {
			return p.Registry() // a source may have become ready after the last registry was read
		}
		select {
		case <-starting:
		case <-ctx.Done():
			return registry
		}
	}
}
