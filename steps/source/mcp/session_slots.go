package mcp

import (
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// sessionSlot is permission for one connection of an UpstreamSession.
type sessionSlot struct{ session *UpstreamSession }

// evictAfter is how long a connection must be idle before another client's connection may replace it.
const evictAfter = time.Second

// acquireSlot takes a slot for a connection. If all are taken, it closes the connection that was idle longest, preferably one
// without subscriptions.
func (s *Source) acquireSlot(slot *sessionSlot) *fault.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.sessionSlots) >= s.options.MaxSessions {
		var victim *sessionSlot
		var best idleConnection
		for candidate := range s.sessionSlots {
			if idle, ok := candidate.session.idle(); ok && (victim == nil || idle.before(best)) {
				victim, best = candidate, idle
			}
		}
		if victim == nil {
			f := fault.New(fault.LimitExceeded, "MCP server %q: %d clients use a session with it, and no more are allowed: "+
				"try again later, or end the session of a client",
				s.options.Name, s.options.MaxSessions)
			f.Outcome = fault.NotSent
			return f
		}
		if victim.session.evict(best.conn) {
			delete(s.sessionSlots, victim)
		}
	}
	s.sessionSlots[slot] = true
	return nil
}

func (s *Source) releaseSlot(slot *sessionSlot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessionSlots, slot)
}

// idleConnection is a connection that no call uses.
type idleConnection struct {
	conn               *connection
	used               time.Time
	wantsNotifications bool // the client waits for notifications
}

// before reports whether i should be closed rather than j.
func (i idleConnection) before(j idleConnection) bool {
	if i.wantsNotifications != j.wantsNotifications {
		return !i.wantsNotifications
	}
	return i.used.Before(j.used)
}

// idle returns the session's connection if it may be evicted; else false.
func (u *UpstreamSession) idle() (idleConnection, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	conn := u.conn
	if conn == nil || conn.ctx.Err() != nil || conn.calls > 0 || time.Since(conn.used) < evictAfter {
		return idleConnection{}, false
	}
	return idleConnection{conn, conn.used, u.reconnects || len(u.subscribed) > 0}, true
}

// evict closes an idle connection; false: it is in use again.
func (u *UpstreamSession) evict(conn *connection) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if conn.calls > 0 {
		return false
	}
	conn.cancel()
	return true
}
