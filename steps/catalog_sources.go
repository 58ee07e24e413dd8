package steps

import "time"

// SourceInfo describes a source of a catalog.
type SourceInfo struct {
	Name string
	Status
	Functions map[string]bool // the names of its functions in the registry; must not be changed
	Needs     string          // if it is a function that needs a credential of its own (Spec.Needs), the name of that
	Differing []Difference    // see CatalogOptions.Admit; must not be changed
	hideCause bool            // the method unavailable leaves out the cause
}

// Sources returns all sources in the order in which they were added.
func (c *Catalog) Sources() []SourceInfo { return c.sources("", c.options.Unbound) }

// sources returns all sources as callers with these credentials know them; unbound: those whose functions are known to the configuration
// are not locked.
func (c *Catalog) sources(credentials string, unbound bool) []SourceInfo {
	c.Registry() // brings the members' names and states up to date
	c.mu.Lock()
	defer c.mu.Unlock()
	infos := make([]SourceInfo, len(c.members))
	for i, m := range c.members {
		infos[i] = SourceInfo{Name: m.name, Status: c.status(m), Functions: m.names, Differing: m.differing}
		if view, _ := m.personal(c, credentials); view != nil {
			infos[i].Status = c.cleanStatus(view.Status())
		} else if missing := c.missing(m.name); missing != nil && c.credential(credentials, m.name) == nil &&
			(!unbound || infos[i].State == StateLocked) {
			infos[i].lock(missing)
		}
	}
	return infos
}

// status returns a source's status without secrets. Since is filled in from the catalog's own observation if the source does not know it.
func (c *Catalog) status(m *member) Status {
	if m.live == nil {
		return Status{State: StateReady}
	}
	status := c.cleanStatus(m.live.Status())
	if !hasKnownFunctions(status.State) && status.State != StateLocked && status.Since.IsZero() {
		status.Since = m.downSince
	}
	return status
}

// cleanStatus returns a status without secrets, and without Since if the source is available.
func (c *Catalog) cleanStatus(status Status) Status {
	status.Error = ScrubFault(c.options.Scrubber, status.Error)
	if hasKnownFunctions(status.State) || status.State == StateLocked {
		status.Since = time.Time{}
	}
	return status
}
