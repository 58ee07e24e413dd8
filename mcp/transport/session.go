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

// Session is a client's session, from its first message on. A client of a protocol version without sessions has none.
type Session struct {
	SDK          *sdk.ServerSession
	Caller       steps.Caller // the client
	Target       any          // what the session's URL requests (see Handler.Target)
	HandlerState any          // set by Handler.SessionOpened

	id     string          // the id of a session over HTTP; "": the session has none
	ctx    context.Context // the context of its calls; ends with the session
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	calls   int           // the number of running calls
	used    time.Time     // when the last call began or ended
	idle    chan struct{} // closed when no call runs; nil: there is no waiter
	timeout time.Duration // the idle time after which timer ends the session
	timer   *time.Timer   // ends the session when it was idle for timeout; nil: never

	directCalls map[string]context.CancelFunc // cancels the running direct calls, by request id

	openOnce sync.Once
	opened   atomic.Bool // HandlerState is set

	evicted bool // evicted for another session; guarded by Server.mu
}

// session returns the session of a client, and creates it for the first message. from is the sender of this message; nil: it did not come
// over HTTP.
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
			if n.timeout = s.opts().SessionTimeout; n.timeout > 0 {
				n.timer = time.AfterFunc(n.timeout, func() { _ = ss.Close() })
			}
		}
	}
	s.mu.Unlock()
	n.openOnce.Do(func() { // further messages of the session wait here until it is opened
		ended := s.handler.SessionOpened(n)
		s.background.Go(func() {
			_ = ss.Wait()
			n.stopTimer()
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

// cancelCalls cancels the session's running calls and all later ones.
func (n *Session) cancelCalls(why *fault.Error) { n.cancel(why) }

// sessionEnded returns the cause for canceling calls of a session that the client has ended.
func sessionEnded() *fault.Error {
	return fault.New(fault.Cancelled, "the client has ended its session")
}

// addCalls adds delta to the number of running calls.
func (n *Session) addCalls(delta int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls += delta
	n.used = time.Now()
	if n.timer != nil && n.calls > 0 {
		n.timer.Stop()
	} else if n.timer != nil {
		n.timer.Reset(n.timeout)
	}
	if n.calls == 0 && n.idle != nil {
		close(n.idle)
		n.idle = nil
	}
}

// stopTimer stops the idle timer for good.
func (n *Session) stopTimer() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.timer != nil {
		n.timer.Stop()
		n.timer = nil
	}
}

// idleSince returns when the session was used last; false: a call is running.
func (n *Session) idleSince() (since time.Time, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.used, n.calls == 0
}

// awaitIdle waits a moment until no call runs: canceled calls still have answers to send.
func (n *Session) awaitIdle() {
	n.mu.Lock()
	if n.calls == 0 {
		n.mu.Unlock()
		return
	}
	if n.idle == nil {
		n.idle = make(chan struct{})
	}
	idle := n.idle
	n.mu.Unlock()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}

// byID returns the HTTP session with this id; nil: none.
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
			n.awaitIdle()
			_ = n.SDK.Close()
		})
	}
	done := make(chan error, 1)
	go func() {
		closing.Wait()
		done <- nil
	}()
	_ = waitForEnd(done) // clients that do not read are left behind
}
