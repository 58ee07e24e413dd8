package mcp

import (
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// room is what a session of a link takes up.
type room struct{ link *Link }

// parkAfter is how long a session must not have been used before it makes room for another client's.
const parkAfter = time.Second

// makeRoom finds room for a session: of those that nobody uses, the one that was used the longest ago ends, one with
// subscriptions last.
func (s *Source) makeRoom(place *room) *fault.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.rooms) >= s.options.MaxLinks {
		var victim *room
		var best idleness
		for r := range s.rooms {
			if idle, ok := r.link.idle(); ok && (victim == nil || idle.before(best)) {
				victim, best = r, idle
			}
		}
		if victim == nil {
			f := fault.New(fault.LimitExceeded, "MCP server %q: %d clients use a session with it, and no more are allowed: try again later, or end the session of a client",
				s.options.Name, s.options.MaxLinks)
			f.Outcome = fault.NotSent
			return f
		}
		if victim.link.park(best.session) {
			delete(s.rooms, victim)
		}
	}
	s.rooms[place] = true
	return nil
}

func (s *Source) leave(place *room) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rooms, place)
}

// idleness is a session that nobody uses.
type idleness struct {
	session *session
	used    time.Time
	follows bool // the client waits for what the server tells in it
}

func (i idleness) before(j idleness) bool {
	if i.follows != j.follows {
		return !i.follows
	}
	return i.used.Before(j.used)
}

// idle is the link's session where it may end for another client's.
func (l *Link) idle() (idleness, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.session
	if n == nil || n.ctx.Err() != nil || n.calls > 0 || time.Since(n.used) < parkAfter {
		return idleness{}, false
	}
	return idleness{n, n.used, l.listens || len(l.subscribed) > 0}, true
}

// park ends a session that nobody uses; false: somebody does by now.
func (l *Link) park(n *session) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.calls > 0 {
		return false
	}
	n.cancel()
	return true
}
