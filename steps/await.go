package steps

import (
	"context"
	"slices"
)

// sourced is a provider that knows its sources.
type sourced interface {
	Sources() []SourceInfo
	settings() *Settings
}

func (c *Catalog) settings() *Settings { return c.options.Settings }

func (v *View) settings() *Settings { return v.catalog.options.Settings }

// Pending reports whether a function of this name, which is not there, may still come: a source is starting, unless the name
// begins with that of a source which is not.
func Pending(p Provider, name string) bool {
	c, ok := p.(sourced)
	if !ok {
		return p.Starting() != nil
	}
	original, starting, named := c.settings().renamed(name), false, false
	for _, source := range c.Sources() {
		now := source.State == StateStarting
		if beginsWith(name, source.Name) || beginsWith(original, source.Name) {
			if now {
				return true
			}
			named = true
		}
		starting = starting || now
	}
	return starting && !named
}

// Qualified reports whether a name begins with that of a source: no other can have a function of this name.
func Qualified(p Provider, name string) bool {
	c, ok := p.(sourced)
	if !ok {
		return false
	}
	original := c.settings().renamed(name)
	return slices.ContainsFunc(c.Sources(), func(source SourceInfo) bool {
		return beginsWith(name, source.Name) || beginsWith(original, source.Name)
	})
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
