// Package transport receives MCP messages over HTTP and stdio. It identifies the sender, refuses malformed and excessive
// requests, ends requests whose caller has lost its rights, and lets running calls end at shutdown. A Handler answers the
// messages.
package transport

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/steps"
)

// Handler answers admitted messages.
type Handler interface {
	// Target parses the query of a request's URL; nil: there is no URL. The result is passed to Server and kept in the Session.
	Target(query url.Values) (target any, refused *fault.Error)
	// Server returns the SDK's server for a caller, with or without sessions. Its first middleware is Server.Receive.
	Server(caller *steps.Caller, target any, sessions bool) *sdk.Server
	// Direct returns a function that answers calls of a tool without the SDK, with the same middleware; nil: the SDK must answer
	// them. session is nil if the client has none.
	Direct(caller *steps.Caller, target any, session *Session, tool string) DirectCall
	// SessionOpened is called for each session before its first message is handled, and may set HandlerState. ended is called
	// once the session has ended.
	SessionOpened(n *Session) (ended func())
	// BeginMessage pins the current configuration for one message, before the caller's rights are checked again. end is called
	// after the answer.
	BeginMessage(ctx context.Context) (begun context.Context, end func())
	// AwaitSources waits until no source is starting, or ctx ends.
	AwaitSources(ctx context.Context)
	// CallID returns the run id of a tool call, for logs; "": none.
	CallID(ctx context.Context) string
	// Acquire waits until a caller's large message may be decoded. It fails if ctx ends first.
	Acquire(ctx context.Context, caller string) (release func(), err error)
}

// Server admits messages and passes them to its handler. It serves at most one HTTP listener and any number of clients over
// stdio.
type Server struct {
	handler Handler
	options atomic.Pointer[Options]
	access  atomic.Pointer[Access] // nil: HTTP is not served

	mu           sync.Mutex
	sessions     map[*sdk.ServerSession]*Session
	ids          map[string]*Session   // the sessions with an id, by id
	open         map[*openRequest]bool // requests that end when their caller's rights change
	reservations map[*reservation]bool // places held for HTTP sessions that are about to begin
	reading      admit.Bytes           // the bytes of messages that are being read or decoded

	calls    *Tracker
	running  callerCounts // running tool calls
	detached callerCounts // work that continues after its request (Request.Detach)
	requests callerCounts // open HTTP requests
	logs     logLimiter

	keysWatched sync.Once

	done       chan struct{} // closed by Close
	closed     sync.Once
	background sync.WaitGroup
}

// New returns a server with options that Options.ApplyDefaults has completed. The caller closes it.
func New(o *Options, h Handler) *Server {
	s := &Server{
		handler:      h,
		sessions:     map[*sdk.ServerSession]*Session{},
		ids:          map[string]*Session{},
		open:         map[*openRequest]bool{},
		reservations: map[*reservation]bool{},
		calls:        NewTracker(),
		done:         make(chan struct{}),
	}
	s.Configure(o)
	return s
}

// Configure replaces the options. Stateless keeps the value that it had when ServeHTTP was called, and open sessions keep their
// SessionTimeout.
func (s *Server) Configure(o *Options) {
	copied := *o // copied alone, so that the struct that embeds it can be freed
	s.options.Store(&copied)
}

func (s *Server) opts() *Options { return s.options.Load() }

// Close ends all sessions at once. It may be called more than once.
func (s *Server) Close() {
	s.closed.Do(func() { close(s.done) })
	s.calls.cancelCalls()
	s.endSessions()
	done := make(chan error, 1)
	go func() {
		s.background.Wait()
		done <- nil
	}()
	_ = waitForEnd(done)
}

// Done returns a channel that Close closes.
func (s *Server) Done() <-chan struct{} { return s.done }

// Stats are a server's current numbers.
type Stats struct {
	Sessions int  // open client sessions
	Calls    int  // running tool calls
	Closing  bool // the server is shutting down: no new calls begin
}

// Stats returns the server's current numbers.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{Sessions: len(s.sessions), Calls: s.calls.running(), Closing: s.calls.isClosing()}
}

// Sessions returns the open sessions, without those that are still being opened.
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

// Session returns the session that belongs to the SDK's session; nil: there is none, or it is still being opened.
func (s *Server) Session(ss *sdk.ServerSession) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.sessions[ss]; n != nil && n.opened.Load() {
		return n
	}
	return nil
}
