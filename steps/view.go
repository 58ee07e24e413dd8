package steps

import (
	"slices"
	"sync"
)

// View is a catalog as one caller sees it: the functions that the caller may use and the sources that it may know of. A source is hidden if
// all its known functions are hidden. A source whose functions are not known is hidden if the settings for the whole source deny the caller
// even a function that reads.
type View struct {
	catalog    *Catalog
	keep       func(*Spec) bool
	plans      bool       // it has signed chains only, which call other functions than the view has; see Rights.Plans
	hideCauses bool       // do not report why sources are unavailable
	cache      *viewCache // shared with the views that WithoutCauses returns

	credentials string // see Rights.Credentials

	base      *View // the view of which this is a variant (see Variant); nil: this is not a variant
	functions map[string][]Function
}

// viewCache holds the most recent view of the catalog's registry.
type viewCache struct {
	mu           sync.Mutex
	source, view *Registry                  // the catalog's registry, and the view of it
	changes      uint64                     // of the personal sources, when the view was made
	names        map[string]map[string]bool // for a variant: function names by source, for sources with other functions
}

// NewView returns the view of a catalog with the functions that keep accepts. keep must be a pure function of the spec and
// must not change it.
func NewView(c *Catalog, keep func(*Spec) bool) *View {
	return &View{catalog: c, keep: keep, cache: &viewCache{}}
}

// WithCredentials returns the same view for a caller whose request brings these credentials, as Rights.Credentials has them.
func (v *View) WithCredentials(credentials string) *View {
	if v.credentials == credentials {
		return v
	}
	copied := *v
	copied.credentials, copied.cache = credentials, &viewCache{}
	return &copied
}

// WithoutCauses returns the same view for callers that must not learn why a source is unavailable (see the function WithoutCauses).
func (v *View) WithoutCauses() *View {
	copied := *v
	copied.hideCauses = true
	return &copied
}

// Registry implements Provider. The view is computed once for each registry of the catalog.
func (v *View) Registry() *Registry {
	v.refreshCredentials()
	all, changes := v.catalog.Registry(), v.catalog.changes(v.credentials)
	v.cache.mu.Lock()
	defer v.cache.mu.Unlock()
	if v.cache.source != all || v.cache.changes != changes {
		v.cache.view, v.cache.names = v.build(all)
		v.cache.source, v.cache.changes = all, changes
	}
	return v.cache.view
}

// refreshCredentials brings up to date what the caller has, for all that is looked at afterwards.
func (v *View) refreshCredentials() {
	if all := v.catalog.options.Credentials; all != nil && v.credentials != "" {
		all.Refresh(v.credentials)
	}
}

// Starting implements Provider. It ignores sources that are hidden from the caller, unless signed chains may call them.
func (v *View) Starting() <-chan struct{} {
	v.refreshCredentials()
	starting := v.catalog.Starting()
	if v.credentials != "" && !v.plans { // personal sources start for each credential
		starting = v.catalog.Changed() // before the states are read, so that no change is missed
	}
	if starting == nil || !v.plans && !slices.ContainsFunc(v.Sources(), func(s SourceInfo) bool { return s.State == StateStarting }) {
		return nil
	}
	return starting
}

// Sources returns the sources that the caller may know of, with the functions that it may use.
func (v *View) Sources() []SourceInfo {
	v.refreshCredentials()
	all := v.catalog.sources(v.credentials, v.catalog.options.Unbound)
	registry := v.Registry()
	for i := range all {
		v.setFunctions(&all[i])
		all[i].Differing = slices.DeleteFunc(slices.Clone(all[i].Differing), func(d Difference) bool { return !v.keep(d.Spec) })
	}
	all = slices.DeleteFunc(all, func(source SourceInfo) bool { return !v.shows(source, registry) })
	all = append(all, v.catalog.lockedFunctions(v.credentials, v.keep)...)
	if v.hideCauses {
		for i := range all {
			all[i] = all[i].withoutCause()
		}
	}
	return all
}

func (v *View) shows(source SourceInfo, registry *Registry) bool {
	if len(source.Functions) == 0 {
		return v.SampleSpec(source.Name, Read) != nil
	}
	for name := range source.Functions {
		if registry.Has(name) {
			return true
		}
	}
	return false
}

// SampleSpec returns a sample spec with this effect, after the settings that apply to the whole source; nil if the caller has no right to
// use such a function.
func (v *View) SampleSpec(source string, effect Effect) *Spec {
	fn, hidden := v.settings().Apply(Function{Spec: Spec{Name: source + ".\x00", Effect: effect, EffectDeclared: true}})
	if hidden { // a function that is in no registry counts as one that only admins may use
		fn.Tier = TierAdmin
	}
	if !v.keep(&fn.Spec) {
		return nil
	}
	return &fn.Spec
}

// HasAll reports whether the caller may use every function that a source has or may get, including one that destroys, in any tier
// that a setting gives. The view's keep must look only at the tier.
func (v *View) HasAll(source string) bool {
	worst := v.SampleSpec(source, Destroy)
	if settings := v.settings(); worst != nil && settings != nil {
		for _, setting := range settings.list {
			if setting.Tier != nil && !v.keep(&Spec{Name: worst.Name, Effect: Destroy, EffectDeclared: true, Tier: *setting.Tier}) {
				return false
			}
		}
	}
	return worst != nil
}

// HasName reports whether the view has a function with this name, ignoring case and separators.
func (r *Registry) HasName(name string) bool {
	if r.Has(name) {
		return true
	}
	return slices.ContainsFunc(r.index.byFolded()[FoldName(name)], func(s spelling) bool {
		return s.rank == fullName && r.entries[s.position] != nil
	})
}
