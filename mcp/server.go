package mcp

import (
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/steps"
)

// Defaults of Options.
const (
	DefaultGrace          = 10 * time.Second
	DefaultMaxSessions    = 1000
	DefaultSessionTimeout = 30 * time.Minute
	DefaultCallerSessions = 250
	DefaultCallerCalls    = 64   // where callers have tokens
	DefaultCalls          = 1024 // of all together, where nobody knows one from another
)

// Server serves one engine and its functions to MCP clients: at most one HTTP door, and any number over stdio.
type Server struct {
	now  atomic.Pointer[generation] // what is served
	door atomic.Pointer[Door]       // over HTTP; nil: it is not open

	mu       sync.Mutex
	faces    map[faceKey]*face
	sessions map[*sdk.ServerSession]*session
	ids      map[string]*session // those of sessions with an id
	streams  map[*stream]bool
	places   map[*place]bool
	reading  admit.Bytes   // of messages that are being read
	readTime time.Duration // for a client to send a message

	awaitTime  time.Duration // for a connection that is just there to say something, when the server closes
	decodeTime time.Duration // after which the slot is released of a message that the protocol's library keeps waiting for something else

	calls    tracker
	callers  callers
	causes   causes
	searched searched

	reloading sync.Mutex
	swapped   chan struct{} // gets a token at each Reload

	keysWatched sync.Once

	done     chan struct{} // closed by Close
	closed   sync.Once
	watching sync.WaitGroup
}

// New makes a server. It fails with bad_request where something that is required is missing. The caller closes it.
func New(o *Options) (*Server, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &Server{faces: map[faceKey]*face{}, sessions: map[*sdk.ServerSession]*session{}, ids: map[string]*session{},
		streams: map[*stream]bool{}, places: map[*place]bool{}, readTime: readTime, decodeTime: decodeTime, awaitTime: awaitTime, swapped: make(chan struct{}, 1), done: make(chan struct{})}
	s.now.Store(newGeneration(o))
	s.watching.Go(s.watch)
	return s, nil
}

// o are the options of what is served now.
func (s *Server) o() *Options { return &s.now.Load().Options }

// Close ends all sessions and what watches the sources, at once. It may be called more than once. The engine and the
// catalogue stay open.
func (s *Server) Close() {
	s.closed.Do(func() { close(s.done) })
	s.calls.cut()
	s.endSessions()
	for _, f := range s.allFaces() {
		f.shared.close()
	}
	done := make(chan error, 1)
	go func() {
		s.watching.Wait()
		done <- nil
	}()
	_ = bidden(done)
}

// Stats tells what a server does at the moment.
type Stats struct {
	Sessions int  // of clients
	Calls    int  // of tools, that run
	Ending   bool // the server is shutting down: no call begins any more
}

// Stats tells what the server does at the moment.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{Sessions: len(s.sessions), Calls: s.calls.count(), Ending: s.calls.ending()}
}

// watch keeps what is shown in step with the sources.
func (s *Server) watch() {
	for {
		changed := s.o().Catalog.Changed()
		for _, f := range s.allFaces() {
			f.refresh()
		}
		select {
		case <-changed:
		case <-s.swapped:
		case <-s.done:
			return
		}
	}
}

func (s *Server) allFaces() []*face {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*face, 0, len(s.faces))
	for _, f := range s.faces {
		all = append(all, f)
	}
	return all
}

// faceKey is what tells faces apart.
type faceKey struct {
	rights  steps.Rights
	surface Surface
}

// face gives the face for callers of some rights on a surface.
func (s *Server) face(r steps.Rights, surface Surface) *face {
	r = settled(r)
	key := faceKey{r, surface}
	s.mu.Lock()
	f, made := s.faces[key]
	if !made {
		f = s.newFace(r, surface)
		s.faces[key] = f
	}
	f.used = s.now.Load() // before anybody can find it unused
	s.mu.Unlock()
	f.begun.Do(f.refresh) // nobody looks at it before
	return f
}
