package steps

import "sync"

// Narrow gives, of a provider's functions, those that keep accepts: the view of a caller. keep must say the same of the
// same spec each time, and must not change it. A view is made once for each registry that the provider gives.
func Narrow(p Provider, keep func(*Spec) bool) Provider { return &narrowed{Provider: p, keep: keep} }

type narrowed struct {
	Provider
	keep func(*Spec) bool

	mu       sync.Mutex
	of, view *Registry
}

// Registry implements Provider.
func (n *narrowed) Registry() *Registry {
	all := n.Provider.Registry()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of != all {
		n.of, n.view = all, all.View(n.keep)
	}
	return n.view
}
