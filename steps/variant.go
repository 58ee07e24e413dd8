package steps

import (
	"bytes"
	"slices"
)

// Variant is the view of a caller to whom some sources offer other functions than to everybody: functions are, by source, those
// that the source offers in a session of the caller's own. They must not be changed. Where they are the catalog's, the registries of
// the variant are those of v.
func (v *View) Variant(functions map[string][]Function) *View {
	return &View{catalog: v.catalog, keep: v.keep, discreet: v.discreet, shared: v, functions: functions, made: &narrowed{}}
}

// narrow makes the view of the catalog's registry. The caller holds v.made.mu.
func (v *View) narrow(all *Registry) (view *Registry, names map[string]map[string]bool) {
	if v.shared == nil {
		return all.View(v.keep), nil
	}
	own, names := v.catalog.variant(v.functions)
	if own == nil {
		return v.shared.Registry(), nil
	}
	return own.View(v.keep), names
}

// adapt gives a source the names of the functions that the variant has of it.
func (v *View) adapt(source *SourceInfo) {
	v.made.mu.Lock()
	defer v.made.mu.Unlock()
	if names, own := v.made.names[source.Name]; own {
		source.Functions = names
	}
}

// variant is the catalog's registry with the functions that some sources offer otherwise, and the names of those by source. It is
// nil where all of them offer the same.
func (c *Catalog) variant(functions map[string][]Function) (*Registry, map[string]map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	names, taken := map[string]map[string]bool{}, map[string]bool{}
	var added []Function
	for _, m := range c.members {
		own, has := functions[m.name]
		if !has {
			continue
		}
		offers := c.offered(m, own)
		if slices.EqualFunc(offers, m.offers, sameFunction) {
			continue
		}
		names[m.name] = map[string]bool{}
		for _, fn := range offers {
			if owner := c.owners[fn.Name]; (owner == nil || owner == m) && !taken[fn.Name] {
				added, taken[fn.Name], names[m.name][fn.Name] = append(added, fn), true, true
			}
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	registry, err := c.base.View(func(s *Spec) bool { return names[c.owners[s.Name].name] == nil }).With(added...)
	if err == nil {
		registry, err = c.options.Wrap(registry)
	}
	if err != nil {
		c.warn(err)
		return nil, nil
	}
	return registry.LinkChains(nil), names
}

// sameFunction reports whether two functions of a source are the same to their callers.
func sameFunction(a, b Function) bool { return a.Name == b.Name && bytes.Equal(a.Listing, b.Listing) }
