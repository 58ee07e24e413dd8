package steps

import (
	"slices"
	"strings"
	"sync"

	"github.com/onecall-mcp/onecall/fault"
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

// Down implements Provider.
func (v *View) Down(name string) *fault.Error { return v.catalog.down(name, v.shows, v.discreet) }

// Absent implements Provider.
func (v *View) Absent() []string {
	var absent []string
	for _, source := range v.Sources() {
		if !isThere(source.State) {
			absent = append(absent, source.Name)
		}
	}
	return absent
}

// Sources tells of the sources that the caller may know of, with those of their functions that it may use.
func (v *View) Sources() []SourceInfo {
	all := v.catalog.Sources()
	registry := v.Registry()
	for i := range all {
		v.adapt(&all[i])
	}
	all = slices.DeleteFunc(all, func(source SourceInfo) bool { return !v.showsOf(source, registry) })
	if v.discreet {
		for i := range all {
			all[i] = all[i].without()
		}
	}
	return all
}

func (v *View) shows(source SourceInfo) bool {
	registry := v.Registry()
	v.adapt(&source)
	return v.showsOf(source, registry)
}

func (v *View) showsOf(source SourceInfo, registry *Registry) bool {
	if len(source.Functions) == 0 {
		return v.keep(v.catalog.sample(source.Name))
	}
	for name := range source.Functions {
		if registry.Has(name) {
			return true
		}
	}
	return false
}

// HasAll reports whether the caller may use whatever functions a source has or may come to have: also one that destroys, by each
// setting that could fit it. keep must look at the tier alone.
func (v *View) HasAll(source string) bool {
	worst := v.catalog.function(source, Destroy)
	return v.keep(worst) && !slices.ContainsFunc(v.catalog.settings().tiers(source), func(t Tier) bool {
		return !v.keep(&Spec{Name: worst.Name, Effect: Destroy, EffectDeclared: true, Tier: t})
	})
}

// Reach is what a caller can do to the world.
type Reach struct {
	Writes   bool // something that it may use does more than read
	Destroys bool
	Outside  bool // something that it may use may reach beyond this machine
}

// Reach sums up the functions of the view. Of a source whose functions are not known it counts what the caller could use of it.
func (v *View) Reach() (r Reach) {
	add := func(spec *Spec) {
		r.Writes = r.Writes || spec.Effect != Read
		r.Destroys = r.Destroys || spec.Effect == Destroy
		r.Outside = r.Outside || !spec.Local
	}
	for _, entry := range v.Registry().All() {
		add(entry.spec)
	}
	for _, source := range v.Absent() {
		for _, effect := range []Effect{Read, Write, Destroy} {
			if spec := v.catalog.function(source, effect); v.keep(spec) {
				add(spec)
			}
		}
	}
	return r
}

// tiers are those that settings give to functions whose names may begin with that of a source.
func (s *Settings) tiers(source string) (tiers []Tier) {
	if s == nil {
		return nil
	}
	for _, one := range s.list {
		literal := one.Pattern
		if wild := strings.IndexAny(literal, "*?"); wild >= 0 {
			literal = literal[:wild]
		}
		if name := source + "."; one.Tier != nil && (strings.HasPrefix(literal, name) || strings.HasPrefix(name, literal)) {
			tiers = append(tiers, *one.Tier)
		}
	}
	return tiers
}

// sample is a function of a source that reads, as far as settings hold for all functions of the source.
func (c *Catalog) sample(source string) *Spec { return c.function(source, Read) }

func (c *Catalog) function(source string, effect Effect) *Spec {
	fn, hidden := c.options.Settings.Apply(Function{Spec: Spec{Name: source + ".\x00", Effect: effect, EffectDeclared: true}})
	if hidden {
		fn.Tier = TierAdmin
	}
	return &fn.Spec
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
