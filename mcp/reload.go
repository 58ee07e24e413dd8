package mcp

import (
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// generation is a configuration between two reloads. A call uses one from beginning to end.
type generation struct {
	Options

	number  int           // number of earlier reloads
	running int           // messages that are being handled, and runs in the background; guarded by Server.mu
	drained chan struct{} // closed once a later generation has replaced this one, and running is 0
}

// newGeneration fails with bad_request if a required option is missing.
func newGeneration(o *Options) (*generation, error) {
	if o == nil {
		o = &Options{}
	}
	g := &generation{Options: *o, drained: make(chan struct{})}
	return g, g.applyDefaults()
}

// Reload replaces the options, and the access over HTTP unless a is nil. Clients are notified if their tools have changed. Running
// calls finish with the old configuration. drained is closed when all of them have finished, and nothing uses the old engine and
// catalog anymore. Name, Version, Log, Grace, Stateless, KeepAlive, SessionTimeout and Replica do not change, and sessions keep
// their token counts. It fails with bad_request if a required option is missing, and then changes nothing.
func (s *Server) Reload(o *Options, a *transport.Access) (drained <-chan struct{}, err error) {
	next, err := newGeneration(o)
	if err != nil {
		return nil, err
	}
	s.reloading.Lock()
	defer s.reloading.Unlock()
	old := s.now.Load()
	next.Name, next.Version, next.Log, next.Grace = old.Name, old.Version, old.Log, old.Grace
	next.Stateless, next.KeepAlive, next.SessionTimeout, next.Replica = old.Stateless, old.KeepAlive, old.SessionTimeout, old.Replica
	if a != nil {
		s.transport.SetAccess(a) // first, so that calls of the new generation are checked by the new access
	}
	next.number = old.number + 1
	s.mu.Lock()
	s.now.Store(next)
	if old.running == 0 {
		close(old.drained)
	}
	s.mu.Unlock()
	s.transport.Configure(&next.Options.Options)
	select {
	case s.swapped <- struct{}{}:
	default: // a signal is pending
	}
	s.dropToolsets(old)
	for _, f := range s.allToolsets() {
		f.refresh()
	}
	for _, v := range s.allViews() {
		v.upstreams.Reload(old.drained)
	}
	return old.drained, nil
}

// dropToolsets drops the toolsets that were not used since the previous reload. Their sessions with upstreams end when all calls
// that may use them have ended.
func (s *Server) dropToolsets(old *generation) {
	seen := map[*toolset]bool{}
	for _, n := range s.transport.Sessions() {
		seen[n.HandlerState.(*session).toolset] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, f := range s.toolsets {
		if seen[f] || f.running.Load() > 0 || f.lastUsed >= old.number {
			continue
		}
		delete(s.toolsets, key)
		for _, v := range f.sharedViews() {
			s.background.Go(func() {
				select {
				case <-old.drained:
				case <-s.transport.Done():
				}
				v.close()
			})
		}
	}
}

// allViews returns the views of all toolsets and sessions that pass upstreams through: the shared ones, and those of single clients.
func (s *Server) allViews() (all []*clientView) {
	for _, f := range s.allToolsets() {
		all = append(all, f.sharedViews()...)
	}
	for _, n := range s.transport.Sessions() {
		if v := n.HandlerState.(*session).view; v != nil {
			all = append(all, v)
		}
	}
	return all
}

// viewSnapshot is a toolset's view of one generation.
type viewSnapshot struct {
	*generation
	view          *steps.View // functions and sources that the caller may know
	withoutCauses *steps.View // the same view for callers that may not see why a source is down
}

// snapshotOf returns the toolset's view of a generation.
func (f *toolset) snapshotOf(g *generation) *viewSnapshot {
	f.snapshotMu.Lock()
	defer f.snapshotMu.Unlock()
	if f.snapshot == nil || f.snapshot.generation != g {
		view := f.rights.View(g.Catalog)
		if f.snapshot != nil && g != f.server.now.Load() {
			return &viewSnapshot{g, view, view.WithoutCauses()} // the call began before a reload, so this view is not kept
		}
		f.snapshot = &viewSnapshot{g, view, view.WithoutCauses()}
	}
	return f.snapshot
}

// view returns what callers of the toolset may use now.
func (f *toolset) view() *steps.View { return f.snapshotOf(f.server.now.Load()).view }
