package steps

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// CatalogOptions configure a catalog. nil is the zero value.
type CatalogOptions struct {
	// Registry holds the options of every registry of the catalog. Its Warn may be called at any time, by one goroutine at
	// a time.
	Registry RegistryOptions
	// Settings apply to every function; nil: none.
	Settings *Settings
	// Scrubber removes the configuration's secrets from results, errors, states and warnings; nil: there are none.
	Scrubber Scrubber
	// Wrap wraps the calls of each new registry, such as with a call cache or a recording. One goroutine calls it at a time. nil:
	// nothing is added.
	Wrap func(*Registry) (*Registry, error)
	// Credentials hold what callers bring for sources that are called as their callers; nil: there are none.
	Credentials Credentials
	// Unbound is for those who know the whole configuration, as at a command line: functions that each caller needs a credential for are there
	// without one, too, so that chains can be checked against them. No plan that calls one is carried out.
	Unbound bool
	// Closed describes a function that onecall would have if the configuration opened it, and the key that opens it; nil: name is no such
	// function. May be nil.
	Closed func(name string) (would *Spec, key string)
	// Admit says how a function, after the settings, differs from what the operator has accepted ("": it does not), and whether it is in the
	// registries nevertheless. Many goroutines may call it. nil: all functions are.
	Admit func(source string, spec *Spec) (differs string, serves bool)
	// BrokenChains receives, for each new registry, the saved chains that are left out for all callers, with the reason; one that wraps
	// ErrCredential: only callers with a credential of their own have the chain. One goroutine calls it at a time. May be nil.
	BrokenChains func(why map[string]*fault.Error)
}

// Catalog collects the functions of sources that come and go. Its registries never change: a change makes a new one. Many
// goroutines may use it.
type Catalog struct {
	options CatalogOptions

	mu        sync.Mutex // never acquired in a callback from a source
	members   []*member  // the first member that offers a name has it
	offeredBy map[string]*member
	warned    map[string]bool // warnings that were already given
	base      *Registry       // the registry before Wrap
	whole     *Registry       // what Whole returns
	current   *Registry
	closed    bool

	signal  sync.Mutex    // held briefly
	changed chan struct{} // closed and replaced at each change
}

// member is one source of a catalog.
type member struct {
	name      string
	source    Source
	live      Live            // nil: the source never changes
	dirty     atomic.Bool     // its functions have changed
	state     State           // the state when its functions were last read
	downSince time.Time       // when it became unavailable; zero: it is available
	offers    []Function      // its functions after the settings, without hidden ones
	names     map[string]bool // its names in the registry; replaced, never changed
	differing []Difference    // see CatalogOptions.Admit; replaced, never changed
}

// Difference is a function that differs from what the operator has accepted.
type Difference struct {
	Spec   *Spec
	How    string
	Serves bool // it is in the registries nevertheless
}

// stateChanged reports whether a live source's state has changed since its functions were last read, and records the new state. The
// notification of the change may still be on its way, and a caller that sees the source ready must find its functions.
func (m *member) stateChanged() bool {
	if m.live == nil {
		return false
	}
	state := m.live.Status().State
	changed := state != m.state
	m.state = state
	switch {
	case hasKnownFunctions(state), state == StateLocked:
		m.downSince = time.Time{}
	case m.downSince.IsZero():
		m.downSince = time.Now()
	}
	return changed
}

// NewCatalog returns an empty catalog.
func NewCatalog(o *CatalogOptions) (*Catalog, error) {
	c := &Catalog{changed: make(chan struct{}), warned: map[string]bool{}}
	if o != nil {
		c.options = *o
	}
	if c.options.Registry.Warn == nil {
		c.options.Registry.Warn = func(*fault.Error) {}
	}
	if c.options.Wrap == nil {
		c.options.Wrap = func(r *Registry) (*Registry, error) { return r, nil }
	}
	var err error
	registry := c.options.Registry
	registry.Warn, registry.Scrubber = func(f *fault.Error) { c.warn(f) }, c.options.Scrubber
	if c.base, err = NewRegistry(nil, &registry); err != nil {
		return nil, err
	}
	c.current, err = c.options.Wrap(c.base)
	c.whole = c.current
	return c, err
}

// Add adds a source under a unique name; bad_request if the name is taken. The catalog closes the source.
func (c *Catalog) Add(name string, s Source) error {
	c.mu.Lock()
	if slices.ContainsFunc(c.members, func(m *member) bool { return FoldName(m.name) == FoldName(name) }) {
		c.mu.Unlock()
		return fault.New(fault.BadRequest, "two sources have the name %s: rename one", fault.Quote(name))
	}
	m := &member{name: name, source: s, names: map[string]bool{}}
	m.live, _ = s.(Live)
	c.members = append(c.members, m)
	c.mu.Unlock()
	change := func() {
		m.dirty.Store(true)
		c.announce()
	}
	if m.live != nil {
		m.live.Watch(change)
	}
	change() // the source may have changed before Watch
	return nil
}

// announce wakes all goroutines that wait for a change.
func (c *Catalog) announce() {
	c.signal.Lock()
	defer c.signal.Unlock()
	close(c.changed)
	c.changed = make(chan struct{})
}

// Changed returns a channel that is closed at the next change of a source's functions or state.
func (c *Catalog) Changed() <-chan struct{} {
	c.signal.Lock()
	defer c.signal.Unlock()
	return c.changed
}

// Starting implements Provider.
func (c *Catalog) Starting() <-chan struct{} {
	changed := c.Changed() // before the states are read, so that no change is missed
	c.mu.Lock()
	members := slices.Clone(c.members)
	c.mu.Unlock()
	for _, m := range members {
		if m.live != nil && m.live.Status().State == StateStarting {
			return changed
		}
	}
	return nil
}

func hasKnownFunctions(s State) bool { return s == StateReady || s == StateIdle || s == StateDisabled }

// Registry implements Provider. If several sources offer a name, the source that was added first has it. The functions of the
// others are left out with a warning.
func (c *Catalog) Registry() *Registry {
	c.mu.Lock()
	defer c.mu.Unlock()
	dirty := map[*member]bool{}
	for _, m := range c.members {
		if changed := m.stateChanged(); m.dirty.Swap(false) || changed {
			dirty[m] = true
			m.offers, m.differing = c.applySettings(m, m.source.Functions())
		}
	}
	if len(dirty) == 0 {
		return c.current
	}
	base, offeredBy, err := c.rebuild(dirty)
	var current, whole *Registry
	if err == nil {
		whole, err = c.options.Wrap(base)
	}
	if current = whole; err == nil && !c.options.Unbound {
		if open := base.open(); open != base {
			current, err = c.options.Wrap(open)
		}
	}
	if err != nil {
		for m := range dirty {
			m.dirty.Store(true) // the next call tries again
		}
		c.warn(err)
		return c.current
	}
	c.base, c.offeredBy = base, offeredBy
	for _, m := range c.members {
		m.names = map[string]bool{}
	}
	for name, m := range offeredBy {
		m.names[name] = true
	}
	c.linkChains(current, whole)
	return c.current
}

// Whole returns the functions that all callers together can have, those that need a credential of each included, and the sources with
// them: what the configuration says, whoever calls. Only functions of sources that have others for each credential are not known.
func (c *Catalog) Whole() (*Registry, []SourceInfo) {
	infos := c.sources("", true)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.whole, infos
}

// linkChains links the saved chains of the registries, which may be the same. They may call functions that Wrap added.
func (c *Catalog) linkChains(current, whole *Registry) {
	broken := map[string]*fault.Error{}
	c.whole = whole.LinkChains(func(name string, why *fault.Error) {
		broken[name] = ScrubFault(c.options.Scrubber, c.orLocked(why))
		delete(c.offeredBy[name].names, name) // Registry has just made the map, and nothing has read it yet
	})
	if c.current = c.whole; current != whole {
		c.current = current.LinkChains(func(name string, _ *fault.Error) { delete(c.offeredBy[name].names, name) })
	}
	if c.options.BrokenChains != nil {
		c.options.BrokenChains(broken)
	}
}

// warn passes on each warning only once.
func (c *Catalog) warn(err error) {
	f, ok := fault.As(err)
	if !ok {
		f = fault.New(fault.Internal, "%v", err)
	}
	f = ScrubFault(c.options.Scrubber, f)
	if !c.warned[f.Message] {
		c.warned[f.Message] = true
		c.options.Registry.Warn(f)
	}
}

// applySettings applies the settings to a source's functions and drops those that are hidden, invalid or not admitted.
func (c *Catalog) applySettings(m *member, functions []Function) (offers []Function, differing []Difference) {
	for _, fn := range functions {
		if m.live != nil {
			fn.Call = markErrors(m.name, fn.Call)
		}
		fn, hidden := c.options.Settings.Apply(scrubFunction(c.options.Scrubber, fn))
		if hidden {
			continue
		}
		if f := checkFunction(&fn); f != nil {
			c.warn(f)
			continue
		}
		if c.options.Admit != nil {
			how, serves := c.options.Admit(m.name, &fn.Spec)
			if how != "" {
				spec := fn.Spec
				differing = append(differing, Difference{&spec, how, serves})
			}
			if !serves {
				continue
			}
		}
		offers = append(offers, fn)
	}
	return offers, differing
}

// Refuses returns why the function of this name is not admitted, as its source lists it now, whether or not a registry has it so already;
// "": it is admitted.
func (c *Catalog) Refuses(source, name string) (why string) {
	c.mu.Lock()
	i := slices.IndexFunc(c.members, func(m *member) bool { return m.name == source })
	if i < 0 || c.options.Admit == nil {
		c.mu.Unlock()
		return ""
	}
	listed := c.members[i].source
	c.mu.Unlock()
	original := c.options.Settings.Original(name)
	for _, fn := range listed.Functions() {
		if original == name && fn.Name != name { // else the setting that gives the name may be for a path
			continue
		}
		fn, hidden := c.options.Settings.Apply(scrubFunction(c.options.Scrubber, fn))
		if fn.Name != name || hidden || checkFunction(&fn) != nil {
			continue
		}
		if how, serves := c.options.Admit(source, &fn.Spec); !serves {
			return how
		}
		return ""
	}
	return "its source does not list it any more"
}

// rebuild makes a new registry, and the new c.offeredBy. It compiles only the functions of changed sources and functions whose name moved
// to another source.
func (c *Catalog) rebuild(dirty map[*member]bool) (*Registry, map[string]*member, error) {
	offeredBy := map[string]*member{}
	var added []Function
	for _, m := range c.members {
		for _, fn := range m.offers {
			if holder, taken := offeredBy[fn.Name]; taken {
				c.warn(fault.New(fault.BadRequest, "%s of the source %s is left out: the source %s has a function of that name; rename one",
					fn.Name, m.name, holder.name))
				continue
			}
			offeredBy[fn.Name] = m
			if dirty[m] || c.offeredBy[fn.Name] != m {
				added = append(added, fn)
			}
		}
	}
	unchanged := c.base.View(func(s *Spec) bool {
		return offeredBy[s.Name] != nil && offeredBy[s.Name] == c.offeredBy[s.Name] && !dirty[offeredBy[s.Name]]
	})
	registry, err := unchanged.With(added...)
	return registry, offeredBy, err
}

// Offered returns the functions of all sources as the sources and the settings say, before defaults and aliases change their schemas,
// including those that only callers with a credential of their own can call. They must not be changed.
func (c *Catalog) Offered() (list []*Spec) {
	c.Registry() // brings the members' functions up to date
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		for i := range m.offers {
			if c.offeredBy[m.offers[i].Name] == m {
				list = append(list, &m.offers[i].Spec)
			}
		}
	}
	return list
}

// closeTime bounds how long Close waits for all sources together.
const closeTime = 10 * time.Second

// Close closes all sources in parallel and joins their errors. If some take longer than closeTime, it returns timeout and leaves them. It
// may be called more than once.
func (c *Catalog) Close() error {
	c.mu.Lock()
	members := c.members
	if c.closed {
		members = nil
	}
	c.closed = true
	c.mu.Unlock()
	failures := make(chan error, len(members))
	for _, m := range members {
		go func() { failures <- m.source.Close() }()
	}
	timer := time.NewTimer(closeTime)
	defer timer.Stop()
	var errs []error
	for range members {
		select {
		case err := <-failures:
			errs = append(errs, err)
		case <-timer.C:
			return errors.Join(append(errs, fault.New(fault.Timeout, "not all sources could be closed within %v", closeTime))...)
		}
	}
	return errors.Join(errs...)
}
