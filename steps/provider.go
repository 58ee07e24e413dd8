package steps

import (
	"context"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// Provider gives the functions that a request may call, as they are now. A *Registry gives itself; a *Catalog gives what
// its sources offer, and a *View those of them that a caller may use.
type Provider interface {
	// Registry is the functions as they are now. It is the same value until something changes.
	Registry() *Registry
	// Starting is closed at the next change, if a source is within its start-up deadline; else it is nil.
	Starting() <-chan struct{}
}

// Registry returns r: a registry is a Provider that never changes.
func (r *Registry) Registry() *Registry { return r }

// Starting returns nil: nothing is starting.
func (r *Registry) Starting() <-chan struct{} { return nil }

// sourced is a provider that knows its sources.
type sourced interface {
	Sources() []SourceInfo
	settings() *Settings
}

func (c *Catalog) settings() *Settings { return c.options.Settings }

func (v *View) settings() *Settings { return v.catalog.options.Settings }

// sourcesOf gives the sources of a provider, and which of them a function of this name is of: its name begins with theirs, or it
// is their function by a setting.
func sourcesOf(p Provider, name string) (all, named []SourceInfo) {
	s, ok := p.(sourced)
	if !ok {
		return nil, nil
	}
	all = s.Sources()
	original := s.settings().renamed(name)
	for _, source := range all {
		if beginsWith(name, source.Name) || beginsWith(original, source.Name) {
			named = append(named, source)
		}
	}
	return all, named
}

// beginsWith reports whether a function's name, in any of its spellings, begins with a source's.
func beginsWith(name, source string) bool {
	if len(name) <= len(source) || FoldName(name[:len(source)]) != FoldName(source) {
		return false
	}
	return strings.IndexByte(separators, name[len(source)]) >= 0
}

// Down says why a name is not found if that is because its source is not there: unavailable, else nil.
func Down(p Provider, name string) *fault.Error {
	_, named := sourcesOf(p, name)
	for _, source := range named {
		if !isThere(source.State) {
			return source.down()
		}
	}
	return nil
}

// Absent names the sources whose functions are not known now, and for that reason not found.
func Absent(p Provider) (names []string) {
	all, _ := sourcesOf(p, "")
	for _, source := range all {
		if !isThere(source.State) {
			names = append(names, source.Name)
		}
	}
	return names
}

// Pending reports whether a function of this name, which is not there, may still come: a source is starting, unless the name
// begins with that of a source which is not.
func Pending(p Provider, name string) bool {
	if _, ok := p.(sourced); !ok {
		return p.Starting() != nil
	}
	all, named := sourcesOf(p, name)
	if len(named) > 0 && named[0].Name != ChainSource { // saved chains come with the functions that they call
		all = named
	}
	return slices.ContainsFunc(all, func(source SourceInfo) bool { return source.State == StateStarting })
}

// Qualified reports whether a name begins with that of a source: no other can have a function of this name.
func Qualified(p Provider, name string) bool {
	_, named := sourcesOf(p, name)
	return len(named) > 0
}

// Await gives the functions once enough says so, or no source is starting any more, or ctx is done. enough is asked of
// each registry; nil waits for all sources.
func Await(ctx context.Context, p Provider, enough func(*Registry) bool) *Registry {
	for {
		starting := p.Starting() // before the functions: what comes meanwhile is not missed
		registry := p.Registry()
		if starting == nil {
			return registry
		}
		if enough != nil && enough(registry) {
			return p.Registry() // a source that enough saw to be ready may have come after the other was taken
		}
		select {
		case <-starting:
		case <-ctx.Done():
			return registry
		}
	}
}
