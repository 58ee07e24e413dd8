package mcp

import (
	"context"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// session is what is kept of a client between its calls. A client without sessions has none.
type session struct {
	face *face
	sdk  *sdk.ServerSession

	ctx    context.Context // of its calls; ends with the session
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	calls  int               // that run
	used   time.Time         // when the last one began or ended
	taught map[string]lesson // by function
	level  sdk.LoggingLevel  // that the client has asked for; "": no log messages

	spent *spending     // nil: nothing is added up
	kept  steps.Session // what others keep for as long as the session lasts
	links *links        // sessions with upstreams; nil: none
	ended chan struct{}
}

// session gives what is kept of a client with a session, from its first request on.
func (f *face) session(ss *sdk.ServerSession) *session {
	s := f.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.sessions[ss]; known != nil {
		return known
	}
	n := &session{face: f, sdk: ss, used: time.Now(), taught: map[string]lesson{}, ended: make(chan struct{})}
	n.ctx, n.cancel = context.WithCancelCause(context.Background())
	n.spent = newSpending(&s.o)
	n.links = newLinks(n)
	s.sessions[ss] = n
	s.watching.Go(func() {
		_ = ss.Wait()
		s.mu.Lock()
		delete(s.sessions, ss)
		s.mu.Unlock()
		n.cut(sessionEnded())
		close(n.ended)
		n.links.close()
	})
	return n
}

// cut cancels the calls of the session that run, and those to come.
func (n *session) cut(why *fault.Error) { n.cancel(why) }

// sessionEnded is why calls of a session are cancelled that its client has ended.
func sessionEnded() *fault.Error {
	return fault.New(fault.Cancelled, "the client has ended its session")
}

// within gives the context of a call of the session, which ends with the session too.
func (n *session) within(ctx context.Context) (within context.Context, end func()) {
	note := func(more int) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.calls += more
		n.used = time.Now()
	}
	note(1)
	within, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(n.ctx, func() { cancel(context.Cause(n.ctx)) })
	return within, func() {
		stop()
		cancel(nil)
		note(-1)
	}
}

// idle tells since when the session was not used; false where it is.
func (n *session) idle() (since time.Time, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.used, n.calls == 0
}

// byID is the session over HTTP with this id; nil: there is none.
func (s *Server) byID(id string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ss, n := range s.sessions {
		if ss.ID() == id {
			return n
		}
	}
	return nil
}

// abandonedAfter is how long a session was not used that gives way to a new one where there are too many.
const abandonedAfter = time.Minute

// room tells whether there may be one more session over HTTP. Most clients never end theirs: where there are too many, the
// one that was not used for longest gives way.
func (s *Server) room() bool {
	s.mu.Lock()
	n := len(s.sessions)
	var oldest *session
	at := time.Now().Add(-abandonedAfter)
	if n >= s.o.MaxSessions {
		for _, one := range s.sessions {
			if since, idle := one.idle(); idle && since.Before(at) && one.sdk.ID() != "" {
				oldest, at = one, since
			}
		}
	}
	s.mu.Unlock()
	if n < s.o.MaxSessions {
		return true
	}
	if oldest == nil {
		return false
	}
	_ = oldest.sdk.Close()
	return true
}

// endSessions closes the sessions that of accepts; nil: all.
func (s *Server) endSessions(of func(*session) bool) {
	s.mu.Lock()
	var list []*session
	for _, n := range s.sessions {
		if of == nil || of(n) {
			list = append(list, n)
		}
	}
	s.mu.Unlock()
	var closing sync.WaitGroup
	for _, n := range list {
		n.cut(sessionEnded())
		closing.Go(func() { _ = n.sdk.Close() })
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
