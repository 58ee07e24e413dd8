package transport

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Session is that of a client, from its first message on. A client without sessions has none.
type Session struct {
	SDK    *sdk.ServerSession
	Caller steps.Caller // whose it is
	Target any          // what its URL asked for
	Kept   any          // by the handler

	id     string          // over HTTP; "": it has none
	ctx    context.Context // of its calls; ends with the session
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	calls int           // that run
	used  time.Time     // when the last one began or ended
	rests chan struct{} // closed when no call runs any more; nil: nobody waits for that

	open   sync.Once
	opened atomic.Bool // Kept is there

	leaving bool // it gives way to another; guarded by Server.mu
}

// session gives the session of a client, which begins with its first message. from has sent that; nil: it did not come over HTTP.
func (s *Server) session(ss *sdk.ServerSession, caller *steps.Caller, from *identity) *Session {
	s.mu.Lock()
	n := s.sessions[ss]
	if n == nil {
		n = &Session{SDK: ss, Caller: *caller, id: ss.ID(), used: time.Now()}
		n.ctx, n.cancel = context.WithCancelCause(context.Background())
		if from != nil {
			n.Target = from.target
			delete(s.reservations, from.reservation)
		} else {
			n.Target, _ = s.handler.Target(nil)
		}
		s.sessions[ss] = n
		if n.id != "" {
			s.ids[n.id] = n
		}
	}
	s.mu.Unlock()
	n.open.Do(func() {
		ended := s.handler.Opened(n)
		s.watching.Go(func() {
			_ = ss.Wait()
			s.mu.Lock()
			delete(s.sessions, ss)
			if n.id != "" {
				delete(s.ids, n.id)
			}
			s.mu.Unlock()
			n.cancelCalls(sessionEnded())
			ended()
		})
		n.opened.Store(true)
	})
	return n
}

// cancelCalls cancels the calls of the session that run, and those to come.
func (n *Session) cancelCalls(why *fault.Error) { n.cancel(why) }

// sessionEnded is why calls of a session are cancelled that its client has ended.
func sessionEnded() *fault.Error {
	return fault.New(fault.Cancelled, "the client has ended its session")
}

// note takes note that a call begins (1) or has ended (-1).
func (n *Session) note(more int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls += more
	n.used = time.Now()
	if n.calls == 0 && n.rests != nil {
		close(n.rests)
		n.rests = nil
	}
}

// idle gives since when the session was not used; false: it is used.
func (n *Session) idle() (since time.Time, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.used, n.calls == 0
}

// rest waits until the session is idle, for a moment: what its cancelled calls answer is still to be sent.
func (n *Session) rest() {
	n.mu.Lock()
	if n.calls == 0 {
		n.mu.Unlock()
		return
	}
	if n.rests == nil {
		n.rests = make(chan struct{})
	}
	rests := n.rests
	n.mu.Unlock()
	timer := time.NewTimer(closeTime)
	defer timer.Stop()
	select {
	case <-rests:
	case <-timer.C:
	}
}

// byID is the session over HTTP with this id; nil: there is none.
func (s *Server) byID(id string) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[id]
}

// endSessions closes all sessions.
func (s *Server) endSessions() {
	var closing sync.WaitGroup
	for _, n := range s.allSessions() {
		n.cancelCalls(sessionEnded())
		closing.Go(func() {
			n.rest()
			_ = n.SDK.Close()
		})
	}
	done := make(chan error, 1)
	go func() {
		closing.Wait()
		done <- nil
	}()
	_ = waitForEnd(done) // a client that reads nothing is left
}
