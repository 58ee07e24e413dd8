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

// free releases the reservation. It is called when the session has begun, or when it will not begin.
func (r *reservation) free() {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	delete(r.server.reservations, r)
}

// reserve makes room for one more HTTP session of a caller; false: the limit is reached, and no session is idle. Most clients never end
// their sessions. If this caller, or all callers together, have too many, the session that has been idle longest is evicted.
func (s *Server) reserve(caller *steps.Caller) (*reservation, bool) {
	r := &reservation{s, caller.ID}
	s.mu.Lock()
	o := s.opts()
	hasTokens := s.access.Load().Callers != nil
	toEvict, ok := s.sessionToEvict(o.Limits(hasTokens).Sessions, func(id string) bool { return id == caller.ID })
	if ok && toEvict == nil {
		toEvict, ok = s.sessionToEvict(o.MaxSessions, func(string) bool { return true })
	}
	if ok {
		s.reservations[r] = true
	}
	if toEvict != nil {
		toEvict.evicted = true
	}
	s.mu.Unlock()
	if toEvict != nil {
		_ = toEvict.SDK.Close()
	}
	return r, ok
}

// sessionToEvict reports whether one more HTTP session is possible for the callers that match selects, within limit. If they have reached
// the limit, toEvict is the session that must be evicted first; ok is false if none has been idle for abandonedAfter. The caller holds
// s.mu.
func (s *Server) sessionToEvict(limit int, match func(caller string) bool) (toEvict *Session, ok bool) {
	if len(s.sessions)+len(s.reservations) < limit { // all callers together have fewer
		return nil, true
	}
	n := 0
	for r := range s.reservations {
		if match(r.caller) {
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
			toEvict, before = session, since
		}
	}
	if n < limit {
		return nil, true
	}
	return toEvict, toEvict != nil
}
