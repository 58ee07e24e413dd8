package transport

import (
	"time"

	"github.com/onecall-mcp/onecall/steps"
)

// abandonedAfter is how long a session must be idle before it can be evicted for a new one.
const abandonedAfter = time.Minute

// reservation holds a place for a session that is about to begin.
type reservation struct {
	server *Server
	caller string
}

// free releases the reservation once its session has begun, or will not begin.
func (p *reservation) free() {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	delete(p.server.reservations, p)
}

// reserve makes room for one more HTTP session of a caller. Most clients never end their sessions: if the caller or all together
// have too many, the one that was idle longest is evicted.
func (s *Server) reserve(caller *steps.Caller) (*reservation, bool) {
	p := &reservation{s, caller.ID}
	s.mu.Lock()
	o, tokens := s.opts(), s.access.Load().Callers != nil
	evicted, ok := s.evictFor(o.Limits(tokens).Sessions, func(id string) bool { return id == caller.ID })
	if ok && evicted == nil {
		evicted, ok = s.evictFor(o.MaxSessions, func(string) bool { return true })
	}
	if ok {
		s.reservations[p] = true
	}
	if evicted != nil {
		evicted.evicted = true
	}
	s.mu.Unlock()
	if evicted != nil {
		_ = evicted.SDK.Close()
	}
	return p, ok
}

// evictFor reports whether there may be one more HTTP session of the callers that match selects, and which session must be
// evicted for it. The caller holds s.mu.
func (s *Server) evictFor(limit int, match func(caller string) bool) (evicted *Session, ok bool) {
	if len(s.sessions)+len(s.reservations) < limit {
		return nil, true
	}
	n := 0
	for p := range s.reservations {
		if match(p.caller) {
			n++
		}
	}
	before := time.Now().Add(-abandonedAfter)
	for _, session := range s.sessions {
		if session.id == "" || session.evicted || !match(session.Caller.ID) {
			continue
		}
		n++
		if since, idle := session.idleSince(); idle && since.Before(before) {
			evicted, before = session, since
		}
	}
	if n < limit {
		return nil, true
	}
	return evicted, evicted != nil
}
