// Package transport is how messages of MCP come in, over HTTP and stdio. It finds out who sends them, refuses what is no message
// or too much, ends requests whose caller's rights have changed, and lets running calls end when the server closes. What a
// message asks for is answered by a Handler.
package transport

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/steps"
)

// Handler answers what clients ask for.
type Handler interface {
	// Target is what the query of a request's URL asks for, which Server and Session are given; nil: there is no URL. It says
	// what is wrong with a query.
	Target(query url.Values) (target any, refused *fault.Error)
	// Server is the SDK's server for a caller; sessions: for clients with sessions. It has the middleware of
	// Server.Receive first.
	Server(caller *steps.Caller, target any, sessions bool) *sdk.Server
	// Opened is called for each session before its first message is handled, and may set what is Kept of it; ended, once the
	// session has ended.
	Opened(n *Session) (ended func())
	// Begin is called for each message that uses what is served at the moment, before its caller's rights are checked
	// again: the message is answered with what is served then. end is called after its answer.
	Begin(ctx context.Context) (begun context.Context, end func())
	// CallID is the id by which logs know a call of a tool; "": nobody gives ids.
	CallID(ctx context.Context) string
	// Acquire waits until a caller's large message may be decoded. It fails if ctx ends first.
	Acquire(ctx context.Context, caller string) (release func(), err error)
}

// Server admits messages, and hands them to its handler. It serves at most one HTTP listener, and any number of clients over
// stdio.
type Server struct {
	handler Handler
	options atomic.Pointer[Options]
	access  atomic.Pointer[Access] // over HTTP; nil: it is not served

	mu           sync.Mutex
	sessions     map[*sdk.ServerSession]*Session
	ids          map[string]*Session // those of sessions with an id
	open         map[*openRequest]bool
	reservations map[*reservation]bool
	reading      admit.Bytes   // of messages that are being read
	readTime     time.Duration // for a client to send a message

	awaitTime  time.Duration // for a new connection to say something, when the server closes
	decodeTime time.Duration // after which the slot is released of a message that the protocol's library keeps waiting for something else

	calls    *tracker
	running  counts // calls of tools, of each caller
	requests counts // over HTTP, of each caller
	logs     logLimiter

	keysWatched sync.Once

	done     chan struct{} // closed by Close
	closed   sync.Once
	watching sync.WaitGroup
}

// New makes a server. Its options are as Options.Settle leaves them. The caller closes it.
func New(o *Options, h Handler) *Server {
	s := &Server{handler: h, sessions: map[*sdk.ServerSession]*Session{}, ids: map[string]*Session{}, open: map[*openRequest]bool{},
		reservations: map[*reservation]bool{}, readTime: readTime, decodeTime: decodeTime, awaitTime: awaitTime, calls: newTracker(), done: make(chan struct{})}
	s.Configure(o)
	return s
}

// Configure replaces the options. Stateless and SessionTimeout stay what they were when ServeHTTP was called.
func (s *Server) Configure(o *Options) {
	own := *o // which keeps nothing of what it was part of
	s.options.Store(&own)
}

func (s *Server) o() *Options { return s.options.Load() }

// Close ends all sessions at once. It may be called more than once.
func (s *Server) Close() {
	s.closed.Do(func() { close(s.done) })
	s.calls.cancelCalls()
	s.endSessions()
	done := make(chan error, 1)
	go func() {
		s.watching.Wait()
		done <- nil
	}()
	_ = waitForEnd(done)
}

// Done is closed when the server closes.
func (s *Server) Done() <-chan struct{} { return s.done }

// Stats is what a server does at the moment.
type Stats struct {
	Sessions int  // of clients
	Calls    int  // of tools, that run
	Ending   bool // the server is shutting down: no call begins any more
}

// Stats gives what the server does at the moment.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{Sessions: len(s.sessions), Calls: s.calls.running(), Ending: s.calls.ending()}
}

// Sessions are those that there are.
func (s *Server) Sessions() []*Session {
	var all []*Session
	for _, n := range s.allSessions() {
		if n.opened.Load() {
			all = append(all, n)
		}
	}
	return all
}

func (s *Server) allSessions() []*Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.sessions))
}

// Session is that of the SDK's session; nil: there is none.
func (s *Server) Session(ss *sdk.ServerSession) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.sessions[ss]; n != nil && n.opened.Load() {
		return n
	}
	return nil
}
