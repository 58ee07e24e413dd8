package transport

import (
	"time"

	"github.com/onecall-mcp/onecall/steps"
)

// abandonedAfter is how long a session was not used that gives way to a new one if there are too many.
const abandonedAfter = time.Minute

// reservation is kept for a session that is about to begin.
type reservation struct {
	server *Server
	caller string
}

// free gives the reservation up: its session has begun, or does not begin.
func (p *reservation) free() {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	delete(p.server.reservations, p)
}

// reserve makes room for one more session of a caller over HTTP. Most clients never end theirs: if there are too many
// of the caller or of all, the one of them that was not used for longest gives way.
func (s *Server) reserve(caller *steps.Caller) (*reservation, bool) {
	p := &reservation{s, caller.ID}
	s.mu.Lock()
	o, tokens := s.o(), s.access.Load().Callers != nil
	gone, ok := s.giveWay(o.Limits(tokens).Sessions, func(id string) bool { return id == caller.ID })
	if ok && gone == nil {
		gone, ok = s.giveWay(o.MaxSessions, func(string) bool { return true })
	}
	if ok {
		s.reservations[p] = true
	}
	if gone != nil {
		gone.leaving = true
	}
	s.mu.Unlock()
	if gone != nil {
		_ = gone.SDK.Close()
	}
	return p, ok
}

// giveWay reports whether there may be one more of the sessions over HTTP of the callers whom of accepts, and which has to end
// for it. The caller holds the lock.
func (s *Server) giveWay(most int, of func(caller string) bool) (gone *Session, ok bool) {
	if len(s.sessions)+len(s.reservations) < most {
		return nil, true
	}
	n := 0
	for p := range s.reservations {
		if of(p.caller) {
			n++
		}
	}
	at := time.Now().Add(-abandonedAfter)
	for _, one := range s.sessions {
		if one.id == "" || one.leaving || !of(one.Caller.ID) {
			continue
		}
		n++
		if since, idle := one.idle(); idle && since.Before(at) {
			gone, at = one, since
		}
	}
	if n < most {
		return nil, true
	}
	return gone, gone != nil
}
