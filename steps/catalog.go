package steps

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// CatalogOptions configure a catalogue. nil is the zero value.
type CatalogOptions struct {
	// Registry are the options of every registry that the catalogue gives. Its Warn may be called at any time, by one
	// goroutine at a time.
	Registry RegistryOptions
	// Settings are applied to every function; nil: none.
	Settings *Settings
	// Scrubber takes the configuration's secrets out of results, errors, states and warnings; nil: there are none.
	Scrubber Scrubber
	// Wrap makes of every new registry the one that is given: what calls go through (a call cache, a recording). It is
	// called by one goroutine at a time. nil: as it is.
	Wrap func(*Registry) (*Registry, error)
	// Broken is told, of each new registry, the saved chains that it has to leave out, and why, by one goroutine at a time. nil:
	// nobody is told.
	Broken func(why map[string]*fault.Error)
}

// Catalog gathers the functions of sources that come and go, and gives them as registries, which never change. It may be
// used by many goroutines.
type Catalog struct {
	options CatalogOptions

	mu      sync.Mutex // never taken by what a source calls
	members []*member  // the order decides whose function has a name that several offer
	owners  map[string]*member
	told    map[string]bool // warnings, which are given once
	base    *Registry       // without Wrap
	current *Registry
	closed  bool

	signal  sync.Mutex    // held for a moment only
	changed chan struct{} // closed and made anew at each change
}

// member is one source of a catalogue.
type member struct {
	name   string
	source Source
	live   Live            // nil: the source never changes
	dirty  atomic.Bool     // what it offers has changed
	state  State           // when it was asked for them
	gone   time.Time       // since when it has not been there; zero: it is
	offers []Function      // with the settings, without what is hidden
	names  map[string]bool // of those in the registry; replaced, never changed
}

// moved reports whether a live source is in another state than when it was asked for its functions last: its word that it
// has changed may still be on the way, and who sees it ready must find its functions.
func (m *member) moved() bool {
	if m.live == nil {
		return false
	}
	state := m.live.Status().State
	moved := state != m.state
	m.state = state
	switch {
	case isThere(state):
		m.gone = time.Time{}
	case m.gone.IsZero():
		m.gone = time.Now()
	}
	return moved
}

// NewCatalog makes an empty catalogue.
func NewCatalog(o *CatalogOptions) (*Catalog, error) {
	c := &Catalog{changed: make(chan struct{}), told: map[string]bool{}}
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
	return c, err
}

// Add adds a source under a name of its own; bad_request where the name is taken. The catalogue closes the source.
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
	change() // also for what changed before it was watched
	return nil
}

// announce wakes those who wait for a change.
func (c *Catalog) announce() {
	c.signal.Lock()
	defer c.signal.Unlock()
	close(c.changed)
	c.changed = make(chan struct{})
}

// Changed is closed at the next change of a source's functions or state.
func (c *Catalog) Changed() <-chan struct{} {
	c.signal.Lock()
	defer c.signal.Unlock()
	return c.changed
}

// Starting implements Provider.
func (c *Catalog) Starting() <-chan struct{} {
	changed := c.Changed() // before the states are looked at: a change meanwhile is not missed
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

func isThere(s State) bool { return s == StateReady || s == StateIdle || s == StateDisabled }

// Registry implements Provider. Of functions with one name that of the source that was added first is taken, and the
// others are left out with a warning.
func (c *Catalog) Registry() *Registry {
	c.mu.Lock()
	defer c.mu.Unlock()
	dirty := map[*member]bool{}
	for _, m := range c.members {
		if moved := m.moved(); m.dirty.Swap(false) || moved {
			dirty[m] = true
			m.offers = c.offered(m, m.source.Functions())
		}
	}
	if len(dirty) == 0 {
		return c.current
	}
	base, err := c.rebuild(dirty)
	var current *Registry
	if err == nil {
		current, err = c.options.Wrap(base)
	}
	if err != nil {
		c.warn(err)
		return c.current
	}
	c.base, c.current = base, c.linked(current)
	return c.current
}

// linked is a registry with its saved chains linked. They may call functions that Wrap has added.
func (c *Catalog) linked(wrapped *Registry) *Registry {
	broken := map[string]*fault.Error{}
	linked := wrapped.LinkChains(func(name string, why *fault.Error) {
		broken[name] = ScrubFault(c.options.Scrubber, why)
		delete(c.owners[name].names, name) // which nobody has got yet
	})
	if c.options.Broken != nil {
		c.options.Broken(broken)
	}
	return linked
}

// warn gives a warning, once.
func (c *Catalog) warn(err error) {
	f, ok := fault.As(err)
	if !ok {
		f = fault.New(fault.Internal, "%v", err)
	}
	f = ScrubFault(c.options.Scrubber, f)
	if !c.told[f.Message] {
		c.told[f.Message] = true
		c.options.Registry.Warn(f)
	}
}

// offered gives functions of a source as the settings have them, without what they hide and what no registry takes.
func (c *Catalog) offered(m *member, functions []Function) []Function {
	var offers []Function
	for _, fn := range functions {
		if m.live != nil {
			fn.Call = marked(m.name, fn.Call)
		}
		fn, hidden := c.options.Settings.Apply(scrubFunction(c.options.Scrubber, fn))
		if hidden {
			continue
		}
		if f := checkFunction(&fn); f != nil {
			c.warn(f)
			continue
		}
		offers = append(offers, fn)
	}
	return offers
}

// rebuild makes the registry anew. What was compiled is kept, but for the sources that changed and the names that have
// gone from one source to another.
func (c *Catalog) rebuild(dirty map[*member]bool) (*Registry, error) {
	owners := map[string]*member{}
	var added []Function
	for _, m := range c.members {
		names := map[string]bool{}
		for _, fn := range m.offers {
			if owner, taken := owners[fn.Name]; taken {
				c.warn(fault.New(fault.BadRequest, "%s of the source %s is left out: the source %s has a function of that name; rename one", fn.Name, m.name, owner.name))
				continue
			}
			owners[fn.Name], names[fn.Name] = m, true
			if dirty[m] || c.owners[fn.Name] != m {
				added = append(added, fn)
			}
		}
		m.names = names
	}
	stays := c.base.View(func(s *Spec) bool {
		return owners[s.Name] != nil && owners[s.Name] == c.owners[s.Name] && !dirty[owners[s.Name]]
	})
	registry, err := stays.With(added...)
	if err == nil {
		c.owners = owners
	}
	return registry, err
}

// SourceInfo is what a catalogue tells of a source.
type SourceInfo struct {
	Name string
	Status
	Functions map[string]bool // the names of its functions in the registry; must not be changed
	discreet  bool            // the cause of Error is not told
}

// Sources tells of all sources, in the order in which they were added.
func (c *Catalog) Sources() []SourceInfo {
	c.Registry()
	c.mu.Lock()
	defer c.mu.Unlock()
	infos := make([]SourceInfo, len(c.members))
	for i, m := range c.members {
		infos[i] = SourceInfo{Name: m.name, Status: c.status(m), Functions: m.names}
	}
	return infos
}

func (c *Catalog) status(m *member) Status {
	if m.live == nil {
		return Status{State: StateReady}
	}
	status := m.live.Status()
	status.Error = ScrubFault(c.options.Scrubber, status.Error)
	if isThere(status.State) {
		status.Since = time.Time{}
	} else if status.Since.IsZero() {
		status.Since = m.gone
	}
	return status
}

// closeTime bounds how long Close waits for the sources together.
const closeTime = 10 * time.Second

// Close closes all sources side by side. It may be called more than once.
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
