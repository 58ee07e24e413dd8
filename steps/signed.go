package steps

import "slices"

// View returns the view of a catalog that callers with these rights have.
func (r Rights) View(c *Catalog) *View {
	v := NewView(c, r.Allows).WithCredentials(r.Credentials)
	v.plans = r.Plans
	return v
}

// Beneath returns the functions that the signed chains of this view call, of which the view itself has none; nil: the chains call functions
// of the view.
func (r *Registry) Beneath() *Registry { return r.beneath }

// signedView returns the view of callers who may use signed chains only (Rights.Plans). It has those of keep whose steps name each function
// exactly, since a signature says nothing about what another name means today.
func (r *Registry) signedView(keep func(*Spec) bool) *Registry {
	view := r.clone()
	view.beneath, view.broken = r, nil
	for i, e := range view.entries {
		if e != nil && !(keep(e.spec) && r.isExact(e.spec.Saved)) {
			view.entries[i] = nil
			view.length--
		}
	}
	return view
}

// isExact reports whether a chain, and each that it calls, names all functions by their full names.
func (r *Registry) isExact(saved *SavedChain) bool {
	for _, name := range slices.Concat(saved.Names, saved.Undoes) {
		i, known := r.index.exact[name]
		if !known || r.entries[i] == nil {
			return false
		}
		if called := r.entries[i].spec.Saved; called != nil && !r.isExact(called) {
			return false
		}
	}
	return true
}
