package steps

import (
	"slices"
	"sync"

	"github.com/onecall-mcp/onecall/fault"
)

// View is what a caller sees of a catalogue: the functions that it may use, and the sources that it may know of. A source
// whose known functions are all hidden is hidden too; of one whose functions are not known it is asked whether a function
// that reads could be seen, with the settings that hold for all of the source.
type View struct {
	catalog *Catalog
	keep    func(*Spec) bool

	mu       sync.Mutex
	of, view *Registry
}

// Narrow gives the view of a catalogue that has the functions which keep accepts. keep must say the same of the same spec
// each time, and must not change it.
func Narrow(c *Catalog, keep func(*Spec) bool) *View { return &View{catalog: c, keep: keep} }

// Registry implements Provider. A view is made once for each registry of the catalogue.
func (v *View) Registry() *Registry {
	all := v.catalog.Registry()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.of != all {
		v.of, v.view = all, all.View(v.keep)
	}
	return v.view
}

// Starting implements Provider.
func (v *View) Starting() <-chan struct{} { return v.catalog.Starting() }

// Down implements Provider.
func (v *View) Down(name string) *fault.Error { return v.catalog.down(name, v.shows) }

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
	return slices.DeleteFunc(all, func(source SourceInfo) bool { return !v.showsOf(source, registry) })
}

func (v *View) shows(source SourceInfo) bool { return v.showsOf(source, v.Registry()) }

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

// sample is a function of a source that reads, as far as settings hold for all functions of the source.
func (c *Catalog) sample(source string) *Spec {
	fn, hidden := c.options.Settings.Apply(Function{Spec: Spec{Name: source + ".\x00", Effect: Read, EffectDeclared: true}})
	if hidden {
		fn.Tier = TierAdmin
	}
	return &fn.Spec
}

// HasName tells whether the view has a function of this name, in any case and with any separators.
func (r *Registry) HasName(name string) bool {
	if r.Has(name) {
		return true
	}
	return slices.ContainsFunc(r.index.spellings()[FoldName(name)], func(s spelling) bool {
		return s.rank == whole && r.entries[s.position] != nil
	})
}
