package mcp

import (
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/steps"
)

// session is what is kept of a client between its calls. A client without sessions has none.
type session struct {
	face *face
	sdk  *sdk.ServerSession

	mu     sync.Mutex
	taught map[string]string // function → the signature that was given
	level  sdk.LoggingLevel  // that the client has asked for; "": no log messages

	links *links // sessions with upstreams; nil: none
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
	n := &session{face: f, sdk: ss, taught: map[string]string{}, ended: make(chan struct{})}
	n.links = newLinks(n)
	s.sessions[ss] = n
	s.watching.Go(func() {
		_ = ss.Wait()
		s.mu.Lock()
		delete(s.sessions, ss)
		s.mu.Unlock()
		close(n.ended)
		n.links.close()
	})
	return n
}

// count is how many sessions there are.
func (s *Server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
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
		closing.Go(func() { _ = n.sdk.Close() })
	}
	closing.Wait()
}

// knows tells whether the client has been given this signature of a function. A client without a session knows nothing.
func (n *session) knows(entry *steps.Entry) bool {
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.taught[entry.Spec().Name] == entry.Signature()
}

// learn takes note of a signature that the client is given.
func (n *session) learn(entry *steps.Entry) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.taught[entry.Spec().Name] = entry.Signature()
}
