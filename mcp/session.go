package mcp

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// session is what is kept of a client between its calls. A client without sessions has none.
type session struct {
	face   *face
	id     string // over HTTP; "": it has none
	sdk    *sdk.ServerSession
	caller steps.Caller // whose it is

	ctx    context.Context // of its calls; ends with the session
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	calls  int               // that run
	used   time.Time         // when the last one began or ended
	taught map[string]lesson // by function
	level  sdk.LoggingLevel  // that the client has asked for; "": no log messages

	spent spending
	kept  *steps.Session // what others keep for as long as the session lasts
	links *links         // sessions with upstreams; nil: none

	leaving bool // it gives way to another; guarded by Server.mu
}

// newSession makes what is kept of a caller's session.
func newSession(f *face, ss *sdk.ServerSession, caller *steps.Caller) *session {
	n := &session{face: f, id: ss.ID(), sdk: ss, caller: *caller, used: time.Now(), taught: map[string]lesson{}, kept: &steps.Session{}}
	n.ctx, n.cancel = context.WithCancelCause(context.Background())
	return n
}

// session gives what is kept of a client with a session of this process, from its first request on; kept is the place that was
// kept for it, nil: none.
func (f *face) session(ss *sdk.ServerSession, caller *steps.Caller, kept *place) *session {
	s := f.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.sessions[ss]; known != nil {
		return known
	}
	delete(s.places, kept)
	n := newSession(f, ss, caller)
	n.links = newLinks(n)
	s.sessions[ss] = n
	if n.id != "" {
		s.ids[n.id] = n
	}
	s.watching.Go(func() {
		_ = ss.Wait()
		s.mu.Lock()
		delete(s.sessions, ss)
		if n.id != "" {
			delete(s.ids, n.id)
		}
		s.mu.Unlock()
		n.cut(sessionEnded())
		n.links.close()
	})
	return n
}

// sessionOf is the session that a request belongs to; nil: its client has none. sessions reports whether the protocol's server
// that was asked is the one for clients with sessions.
func (f *face) sessionOf(ctx context.Context, req sdk.Request, sessions bool) *session {
	if !sessions {
		return nil
	}
	ss, ok := req.GetSession().(*sdk.ServerSession)
	if !ok {
		return nil
	}
	kept, _ := ctx.Value(placeKey{}).(*place)
	return f.session(ss, f.server.callerOf(req.GetExtra(), nil), kept)
}

// cut cancels the calls of the session that run, and those to come.
func (n *session) cut(why *fault.Error) { n.cancel(why) }

// sessionEnded is why calls of a session are cancelled that its client has ended.
func sessionEnded() *fault.Error {
	return fault.New(fault.Cancelled, "the client has ended its session")
}

// within gives the context of a call of the session, which ends with the session too.
func (n *session) within(ctx context.Context) (within context.Context, end func()) {
	n.note(1)
	within, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(n.ctx, func() { cancel(context.Cause(n.ctx)) })
	return within, func() {
		stop()
		cancel(nil)
		n.note(-1)
	}
}

// note takes note that a call begins (1) or has ended (-1).
func (n *session) note(more int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls += more
	n.used = time.Now()
}

// idle tells since when the session was not used; false where it is.
func (n *session) idle() (since time.Time, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.used, n.calls == 0
}

// rest waits until the session is idle, for two seconds at most: what its cancelled calls answer is still to be sent.
func (n *session) rest() {
	for range 400 {
		if _, idle := n.idle(); idle {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// byID is the session over HTTP with this id; nil: there is none.
func (s *Server) byID(id string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[id]
}

// abandonedAfter is how long a session was not used that gives way to a new one where there are too many.
const abandonedAfter = time.Minute

// place is kept for a session that is about to begin.
type place struct {
	server *Server
	caller string
}

type placeKey struct{}

// free gives the place up: its session has begun, or does not begin.
func (p *place) free() {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	delete(p.server.places, p)
}

// reserve keeps a place for one more session of a caller over HTTP. Most clients never end theirs: where there are too many
// of the caller or of all, the one of them that was not used for longest gives way.
func (s *Server) reserve(caller *steps.Caller) (*place, bool) {
	p := &place{s, caller.ID}
	s.mu.Lock()
	gone, ok := s.giveWay(s.sessionsEach(), func(id string) bool { return id == caller.ID })
	if ok && gone == nil {
		gone, ok = s.giveWay(s.o().MaxSessions, func(string) bool { return true })
	}
	if ok {
		s.places[p] = true
	}
	if gone != nil {
		gone.leaving = true
	}
	s.mu.Unlock()
	if gone != nil {
		_ = gone.sdk.Close()
	}
	return p, ok
}

// sessionsEach is how many sessions a caller may have; 0: any number, as where nobody knows one caller from another.
func (s *Server) sessionsEach() int {
	if s.door.Load().Callers == nil {
		return 0
	}
	return max(s.o().Limits.Sessions, 0)
}

// giveWay tells whether there may be one more of the sessions over HTTP of the callers whom of accepts, and which has to end
// for it; most 0: there may be any number. The caller holds the lock.
func (s *Server) giveWay(most int, of func(caller string) bool) (gone *session, ok bool) {
	if most == 0 || len(s.sessions)+len(s.places) < most {
		return nil, true
	}
	n := 0
	for p := range s.places {
		if of(p.caller) {
			n++
		}
	}
	at := time.Now().Add(-abandonedAfter)
	for _, one := range s.sessions {
		if one.id == "" || one.leaving || !of(one.caller.ID) {
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

// endSessions closes all sessions.
func (s *Server) endSessions() {
	s.mu.Lock()
	list := slices.Collect(maps.Values(s.sessions))
	s.mu.Unlock()
	var closing sync.WaitGroup
	for _, n := range list {
		n.cut(sessionEnded())
		closing.Go(func() {
			n.rest()
			_ = n.sdk.Close()
		})
	}
	done := make(chan error, 1)
	go func() {
		closing.Wait()
		done <- nil
	}()
	_ = bidden(done) // a client that reads nothing is left
}

// lesson is what a client was told of a function.
type lesson struct {
	signature string
	whole     bool // with the whole description, not only its summary
}

// knows tells whether the client has been told so much of a function. A client without a session knows nothing.
func (n *session) knows(entry *steps.Entry, whole bool) bool {
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	told, ok := n.taught[entry.Spec().Name]
	return ok && told.signature == entry.Signature() && (told.whole || !whole)
}

// learn takes note of what the client is told.
func (n *session) learn(entry *steps.Entry, whole bool) {
	if n == nil {
		return
	}
	whole = whole || n.knows(entry, true)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.taught[entry.Spec().Name] = lesson{entry.Signature(), whole}
}
