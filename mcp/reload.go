package mcp

import (
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// generation is what is served between two changes of the configuration. A call has one from its beginning to its end.
type generation struct {
	Options

	number  int           // of reloads before it
	running int           // calls; guarded by Server.mu
	drained chan struct{} // closed once nothing runs of what is not served any more
}

// newGeneration fails with bad_request if something that is required is missing.
func newGeneration(o *Options) (*generation, error) {
	if o == nil {
		o = &Options{}
	}
	g := &generation{Options: *o, drained: make(chan struct{})}
	return g, g.settle()
}

// Reload serves something else from now on, to the clients that there are and those to come, and replaces who is served over HTTP
// (a nil: it stays); clients are told if their tools have changed. Calls that run end with what they began with: drained is closed
// when all have, and nothing uses the old engine and catalogue any more. Of the options Name, Version, Log, Grace, Stateless,
// KeepAlive, SessionTimeout and Replica stay what they were; what was added up of a session stays. It fails with bad_request if
// something that is required is missing, and then changes nothing.
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
		s.transport.SetAccess(a) // before: whoever begins on what comes next is checked by the new access
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
	default: // it is looked at anyway
	}
	s.dropToolsets(old)
	for _, f := range s.allToolsets() {
		f.refresh()
	}
	for _, v := range s.allVariants() {
		v.links.Renew(old.drained)
	}
	return old.drained, nil
}

// dropToolsets lets go of the toolsets that nobody has used since the reload before, and nobody uses; a caller that comes again gets
// another. Their sessions with upstreams end when all calls have that may use them.
func (s *Server) dropToolsets(old *generation) {
	seen := map[*toolset]bool{}
	for _, n := range s.transport.Sessions() {
		seen[n.Kept.(*session).toolset] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, f := range s.toolsets {
		if seen[f] || f.running.Load() > 0 || f.used >= old.number {
			continue
		}
		delete(s.toolsets, key)
		if f.shared != nil {
			s.watching.Go(func() {
				select {
				case <-old.drained:
				case <-s.transport.Done():
				}
				f.shared.close()
			})
		}
	}
}

// allVariants are what clients see for themselves.
func (s *Server) allVariants() (all []*variant) {
	for _, f := range s.allToolsets() {
		if f.shared != nil {
			all = append(all, f.shared)
		}
	}
	for _, n := range s.transport.Sessions() {
		if v := n.Kept.(*session).own; v != nil {
			all = append(all, v)
		}
	}
	return all
}

// viewSnapshot is what a toolset shows of one generation.
type viewSnapshot struct {
	*generation
	view     *steps.View // what the caller may use, and know of
	discreet *steps.View // the same for callers who are not told why sources are not there
}

// snapshotOf gives what the toolset shows of a generation.
func (f *toolset) snapshotOf(g *generation) *viewSnapshot {
	f.snapshotMu.Lock()
	defer f.snapshotMu.Unlock()
	if f.snapshot == nil || f.snapshot.generation != g {
		view := steps.Narrow(g.Catalog, f.rights.Allows)
		if f.snapshot != nil && g != f.server.now.Load() {
			return &viewSnapshot{g, view, view.Discreet()} // of a call that began before a reload
		}
		f.snapshot = &viewSnapshot{g, view, view.Discreet()}
	}
	return f.snapshot
}

// view is what callers of the toolset may use now.
func (f *toolset) view() *steps.View { return f.snapshotOf(f.server.now.Load()).view }
