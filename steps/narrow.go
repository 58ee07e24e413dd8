package steps

import (
	"slices"
	"sync"
)

// View is what a caller sees of a catalogue: the functions that it may use, and the sources that it may know of. A source
// whose known functions are all hidden is hidden too; of one whose functions are not known it is asked whether a function
// that reads could be seen, with the settings that hold for all of the source.
type View struct {
	catalog  *Catalog
	keep     func(*Spec) bool
	discreet bool      // why sources are unavailable is not told
	made     *narrowed // common to the view and its discreet form

	shared    *View // of a variant (see Variant): the view without it; nil: it is none
	functions map[string][]Function
}

// narrowed is the view of a registry that was made last.
type narrowed struct {
	mu       sync.Mutex
	of, view *Registry
	names    map[string]map[string]bool // of a variant: the functions of the sources that offer others
}

// Narrow gives the view of a catalogue that has the functions which keep accepts. keep must say the same of the same spec
// each time, and must not change it.
func Narrow(c *Catalog, keep func(*Spec) bool) *View {
	return &View{catalog: c, keep: keep, made: &narrowed{}}
}

// Discreet is the same view for callers that are not told why a source is unavailable: see WithoutCauses.
func (v *View) Discreet() *View {
	own := *v
	own.discreet = true
	return &own
}

// Registry implements Provider. A view is made once for each registry of the catalogue.
func (v *View) Registry() *Registry {
	all := v.catalog.Registry()
	v.made.mu.Lock()
	defer v.made.mu.Unlock()
	if v.made.of != all {
		v.made.view, v.made.names = v.narrow(all)
		v.made.of = all
	}
	return v.made.view
}

// Starting implements Provider. Nobody waits for a source that it may not know of.
func (v *View) Starting() <-chan struct{} {
	starting := v.catalog.Starting()
	if starting == nil || !slices.ContainsFunc(v.Sources(), func(s SourceInfo) bool { return s.State == StateStarting }) {
		return nil
	}
	return starting
}

// Sources tells of the sources that the caller may know of, with those of their functions that it may use.
func (v *View) Sources() []SourceInfo {
	all := v.catalog.Sources()
	registry := v.Registry()
	for i := range all {
		v.adapt(&all[i])
	}
	all = slices.DeleteFunc(all, func(source SourceInfo) bool { return !v.shows(source, registry) })
	if v.discreet {
		for i := range all {
			all[i] = all[i].without()
		}
	}
	return all
}

func (v *View) shows(source SourceInfo, registry *Registry) bool {
	if len(source.Functions) == 0 {
		return v.Could(source.Name, Read) != nil
	}
	for name := range source.Functions {
		if registry.Has(name) {
			return true
		}
	}
	return false
}

// Could is what a function of a source with this effect would be, as far as settings hold for all functions of the source; nil: the
// caller may not use such a function.
func (v *View) Could(source string, effect Effect) *Spec {
	fn, hidden := v.settings().Apply(Function{Spec: Spec{Name: source + ".\x00", Effect: effect, EffectDeclared: true}})
	if hidden {
		fn.Tier = TierAdmin
	}
	if !v.keep(&fn.Spec) {
		return nil
	}
	return &fn.Spec
}

// HasAll reports whether the caller may use whatever functions a source has or may come to have: also one that destroys, in any tier
// that a setting gives. keep must look at the tier alone.
func (v *View) HasAll(source string) bool {
	worst := v.Could(source, Destroy)
	if settings := v.settings(); worst != nil && settings != nil {
		for _, one := range settings.list {
			if one.Tier != nil && !v.keep(&Spec{Name: worst.Name, Effect: Destroy, EffectDeclared: true, Tier: *one.Tier}) {
				return false
			}
		}
	}
	return worst != nil
}

// HasName reports whether the view has a function of this name, in any case and with any separators.
func (r *Registry) HasName(name string) bool {
	if r.Has(name) {
		return true
	}
	return slices.ContainsFunc(r.index.spellings()[FoldName(name)], func(s spelling) bool {
		return s.rank == whole && r.entries[s.position] != nil
	})
}
