package mcp

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// Server serves one engine and its functions to MCP clients: over at most one HTTP listener, and any number over stdio.
type Server struct {
	transport *transport.Server
	now       atomic.Pointer[generation] // what is served; replaced under mu

	mu       sync.Mutex
	toolsets map[toolsetKey]*toolset

	causes   causes
	searched searched

	reloading sync.Mutex
	swapped   chan struct{} // gets a token at each Reload

	watching sync.WaitGroup
}

// New makes a server. It fails with bad_request if something that is required is missing. The caller closes it.
func New(o *Options) (*Server, error) {
	g, err := newGeneration(o)
	if err != nil {
		return nil, err
	}
	s := &Server{toolsets: map[toolsetKey]*toolset{}, swapped: make(chan struct{}, 1)}
	s.now.Store(g)
	s.transport = transport.New(&g.Options.Options, handler{s})
	s.watching.Go(s.watch)
	return s, nil
}

// o are the options of what is served now.
func (s *Server) o() *Options { return &s.now.Load().Options }

// ServeHTTP serves clients over HTTP, as transport.Server does. A client chooses another surface than the server's by the query:
// /mcp?surface=flat.
func (s *Server) ServeHTTP(ctx context.Context, l net.Listener, a *transport.Access) error {
	return s.transport.ServeHTTP(ctx, l, a)
}

// ServeStdio serves one client over stdio, as transport.Server does.
func (s *Server) ServeStdio(ctx context.Context, in io.ReadCloser, out io.WriteCloser, caller *steps.Caller) error {
	return s.transport.ServeStdio(ctx, in, out, caller)
}

// LookAgain reads the keys of tokens again now, as transport.Server does.
func (s *Server) LookAgain() { s.transport.LookAgain() }

// Stats gives what the server does at the moment.
func (s *Server) Stats() transport.Stats { return s.transport.Stats() }

// Close ends all sessions and what watches the sources, at once. It may be called more than once. The engine and the
// catalogue stay open.
func (s *Server) Close() {
	s.transport.Close()
	for _, f := range s.allToolsets() {
		f.shared.close()
	}
	done := make(chan struct{})
	go func() {
		s.watching.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(closeTime):
	}
}

// closeTime bounds how long Close waits for what watches the sources.
const closeTime = 2 * time.Second

// watch keeps what is shown in step with the sources.
func (s *Server) watch() {
	for {
		changed := s.o().Catalog.Changed()
		for _, f := range s.allToolsets() {
			f.refresh()
		}
		select {
		case <-changed:
		case <-s.swapped:
		case <-s.transport.Done():
			return
		}
	}
}

func (s *Server) allToolsets() []*toolset {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*toolset, 0, len(s.toolsets))
	for _, f := range s.toolsets {
		all = append(all, f)
	}
	return all
}

// toolsetKey is what tells toolsets apart.
type toolsetKey struct {
	rights  steps.Rights
	surface Surface
}

// toolset gives the toolset for callers of some rights on a surface.
func (s *Server) toolset(r steps.Rights, surface Surface) *toolset {
	key := toolsetKey{r, surface}
	s.mu.Lock()
	f, made := s.toolsets[key]
	if !made {
		f = s.newToolset(r, surface)
		s.toolsets[key] = f
	}
	f.used = s.now.Load().number // before anybody can find it unused
	s.mu.Unlock()
	f.begun.Do(f.refresh) // nobody looks at it before
	return f
}

// handler answers what the transport has admitted.
type handler struct{ s *Server }

// Target implements transport.Handler: it is the surface that a query asks for, else the server's.
func (h handler) Target(query url.Values) (any, *fault.Error) {
	word := query.Get("surface")
	if word == "" {
		return h.s.o().Surface, nil
	}
	surface, err := ParseSurface(word)
	f, _ := fault.As(err)
	return surface, f
}

// Server implements transport.Handler.
func (h handler) Server(caller *steps.Caller, target any, sessions bool) *sdk.Server {
	f := h.s.toolset(caller.Rights, target.(Surface))
	if sessions {
		return f.stateful
	}
	return f.stateless
}

// Opened implements transport.Handler.
func (h handler) Opened(n *transport.Session) (ended func()) {
	own := newSession(h.s.toolset(n.Caller.Rights, n.Target.(Surface)), n)
	n.Kept = own
	return own.own.close
}

type generationKey struct{}

// Begin implements transport.Handler.
func (h handler) Begin(ctx context.Context) (context.Context, func()) {
	s := h.s
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.now.Load()
	g.running++
	return context.WithValue(ctx, generationKey{}, g), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if g.running--; g.running == 0 && g != s.now.Load() {
			close(g.drained)
		}
	}
}

// CallID implements transport.Handler.
func (h handler) CallID(ctx context.Context) string {
	_, id := h.s.o().Engine.Identify(ctx, "")
	return id
}

// Acquire implements transport.Handler.
func (h handler) Acquire(ctx context.Context, caller string) (release func(), err error) {
	return h.s.o().Engine.Acquire(ctx, caller)
}
