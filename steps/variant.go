package steps

import (
	"bytes"
	"slices"
)

// Variant returns the view of a caller for whom some sources offer other functions. functions holds, by source, the functions of
// the caller's own sessions; it must not be changed. If they equal the catalog's, the variant has the registries of v.
func (v *View) Variant(functions map[string][]Function) *View {
	variant := *v
	variant.base, variant.functions, variant.cache = v, functions, &viewCache{}
	return &variant
}

// build computes the view of the catalog's registry. names are those of viewCache; nil: all sources offer the catalog's functions. The
// caller holds v.cache.mu.
func (v *View) build(all *Registry) (view *Registry, names map[string]map[string]bool) {
	if v.base == nil && v.credentials == "" {
		return v.narrow(all), nil
	}
	registry, names := v.catalog.variant(v.functions, v.credentials)
	switch {
	case registry == nil && v.base == nil:
		return v.narrow(all), nil
	case registry == nil:
		return v.base.Registry(), nil
	}
	return v.narrow(registry), names
}

// narrow returns the functions that the caller may use. Those of chains only (Spec.ChainOnly) are left out if they are all that it may use
// of their source, unless its rights name them: it must not learn that there is more.
func (v *View) narrow(all *Registry) *Registry {
	if v.plans {
		return all.signedView(v.keep)
	}
	view := all.View(v.keep)
	hides, shows := map[string]bool{}, map[string]bool{} // the sources of other functions that the caller may not use, and may use
	for i, e := range all.entries {
		switch {
		case e == nil || e.spec.ChainOnly:
		case view.entries[i] == nil:
			hides[e.spec.Source()] = true
		default:
			shows[e.spec.Source()] = true
		}
	}
	lonely := func(s *Spec) bool {
		return s.ChainOnly && hides[s.Source()] && !shows[s.Source()] && !v.names(s)
	}
	if !slices.ContainsFunc(view.entries, func(e *Entry) bool { return e != nil && lonely(e.spec) }) {
		return view
	}
	return view.View(func(s *Spec) bool { return !lonely(s) })
}

// names reports whether the rights to a function that the caller may use are for its name, not for all functions like it.
func (v *View) names(s *Spec) bool {
	other := &Spec{Name: s.Source() + ".\x00other", Effect: s.Effect, EffectDeclared: s.EffectDeclared, Tier: s.Tier}
	return !v.keep(other)
}

// setFunctions sets a source's function names to those of the variant.
func (v *View) setFunctions(source *SourceInfo) {
	v.cache.mu.Lock()
	defer v.cache.mu.Unlock()
	if names, ok := v.cache.names[source.Name]; ok {
		source.Functions = names
	}
}

// variant returns the catalog's registry with other functions of some sources: those in functions, and those of callers with these
// credentials. names are the names of their functions, by source. It returns nil if they equal the catalog's, and, after a warning, if the
// registry cannot be made.
func (c *Catalog) variant(functions map[string][]Function, credentials string) (*Registry, map[string]map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	names, taken := map[string]map[string]bool{}, map[string]bool{}
	var added []Function
	for _, m := range c.members {
		offers, ok := c.variantOffers(m, functions, credentials)
		if !ok || slices.EqualFunc(offers, m.offers, sameFunction) {
			continue
		}
		names[m.name] = map[string]bool{}
		for _, fn := range offers {
			if holder := c.offeredBy[fn.Name]; (holder == nil || holder == m) && !taken[fn.Name] {
				added, taken[fn.Name], names[m.name][fn.Name] = append(added, fn), true, true
			}
		}
	}
	if len(names) == 0 && credentials == "" {
		return nil, nil
	}
	others := c.base.View(func(s *Spec) bool { return names[c.offeredBy[s.Name].name] == nil })
	found := map[string]*Credential{}
	registry, err := others.as(func(name string) *Credential {
		if _, known := found[name]; !known {
			found[name] = c.credential(credentials, name)
		}
		return found[name]
	}, c.options.Unbound).With(added...)
	if err == nil {
		registry, err = c.options.Wrap(registry)
	}
	if err != nil {
		c.warn(err)
		return nil, nil
	}
	return registry.LinkChains(nil), names
}

// variantOffers returns what a source offers in a variant; false: what it offers to all.
func (c *Catalog) variantOffers(m *member, functions map[string][]Function, credentials string) (offers []Function, ok bool) {
	if listed, ok := functions[m.name]; ok {
		offers, _ = c.applySettings(m, listed)
		return offers, true
	}
	view, own := m.personal(c, credentials)
	if view == nil {
		return nil, false
	}
	offers, _ = c.applySettings(m, view.Functions())
	for i := range offers {
		offers[i].Credential, offers[i].KeepsCredential, offers[i].Call = own.ID(), own.Kept, own.Carry(offers[i].Call)
	}
	return offers, true
}

// sameFunction reports whether callers see no difference between two functions of a source.
func sameFunction(a, b Function) bool { return a.Name == b.Name && bytes.Equal(a.Listing, b.Listing) }
