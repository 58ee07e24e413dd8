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

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// Server serves one engine and its functions to MCP clients: over HTTP, with at most one listener, and to any number of clients over stdio.
type Server struct {
	transport *transport.Server
	now       atomic.Pointer[generation] // current configuration; replaced under mu

	mu         sync.Mutex
	toolsets   map[toolsetKey]*toolset
	listsUntil map[string]time.Time // when the lists of each caller over HTTP stop waiting, by the caller's id

	causes       causeLog
	listWarnings sync.Map // warnings about listed tools that were already logged
	searchIndex  searchIndex

	reloading sync.Mutex    // held by Reload
	swapped   chan struct{} // gets a token at each Reload

	runs      chain.DetachedRuns
	exchanges exchanges

	background sync.WaitGroup
}

// New returns a server. It fails with bad_request if a required option is missing. The caller closes it.
func New(o *Options) (*Server, error) {
	g, err := newGeneration(o)
	if err != nil {
		return nil, err
	}
	s := &Server{toolsets: map[toolsetKey]*toolset{}, listsUntil: map[string]time.Time{}, swapped: make(chan struct{}, 1)}
	s.now.Store(g)
	s.transport = transport.New(&g.Options.Options, handler{s})
	s.background.Go(s.watch)
	return s, nil
}

// opts returns the current options.
func (s *Server) opts() *Options { return &s.now.Load().Options }

// ServeHTTP serves clients over HTTP as transport.Server does. A client may choose its surface by the query: /mcp?surface=flat.
func (s *Server) ServeHTTP(ctx context.Context, l net.Listener, a *transport.Access) error {
	return s.transport.ServeHTTP(ctx, l, a)
}

// ServeStdio serves one client over stdio, as transport.Server does.
func (s *Server) ServeStdio(ctx context.Context, in io.ReadCloser, out io.WriteCloser, caller *steps.Caller) error {
	return s.transport.ServeStdio(withStdioLists(ctx), in, out, caller)
}

// Drain waits for running calls, as transport.Server does.
func (s *Server) Drain() { s.transport.Drain() }

// Begin begins work that a shutdown waits for, as transport.Server does.
func (s *Server) Begin(ctx context.Context) (_ context.Context, end func(), refused *fault.Error) {
	return s.transport.Begin(ctx)
}

// RecheckCallers reads the keys of tokens again, as transport.Server does.
func (s *Server) RecheckCallers() { s.transport.RecheckCallers() }

// Stats returns the server's current numbers.
func (s *Server) Stats() transport.Stats { return s.transport.Stats() }

// Close ends all sessions and background work at once. It may be called more than once. The engine and the catalog stay open.
func (s *Server) Close() {
	s.transport.Close()
	for _, f := range s.allToolsets() {
		for _, v := range f.sharedViews() {
			v.close()
		}
	}
	done := make(chan struct{})
	go func() {
		s.background.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(closeTimeout):
	}
}

// closeTimeout bounds how long Close waits for background work.
const closeTimeout = 2 * time.Second

// watch updates the toolsets when the sources change.
func (s *Server) watch() {
	for {
		changed := s.opts().Catalog.Changed()
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

// toolsetKey identifies a toolset.
type toolsetKey struct {
	rights  steps.Rights
	surface Surface
}

// toolset returns the toolset for rights on a surface.
func (s *Server) toolset(r steps.Rights, surface Surface) *toolset {
	key := toolsetKey{r, surface}
	s.mu.Lock()
	f, ok := s.toolsets[key]
	if !ok {
		f = s.newToolset(r, surface)
		s.toolsets[key] = f
	}
	f.lastUsed = s.now.Load().number // set before dropToolsets can see the toolset as unused
	if r.Credentials != "" {
		f.usedAt = time.Now()
	}
	s.mu.Unlock()
	if !ok && r.Credentials != "" {
		s.dropPersonalToolset()
	}
	f.fillOnce.Do(f.refresh) // the first caller fills it
	return f
}

// maxPersonalToolsets bounds the toolsets of callers with credentials of their own: each renewed token is another credential.
const maxPersonalToolsets = 256

// dropPersonalToolset drops, if there are too many toolsets of credentials, the one that was not used for the longest time, unless all are
// in use.
func (s *Server) dropPersonalToolset() {
	seen := map[*toolset]bool{}
	for _, n := range s.transport.Sessions() {
		seen[n.HandlerState.(*session).toolset] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	count := 0
	var oldest *toolset
	for key, f := range s.toolsets {
		if key.rights.Credentials == "" {
			continue
		}
		count++
		idle := !seen[f] && f.running.Load() == 0 && time.Since(f.usedAt) > time.Minute // a session may be on its way
		if idle && (oldest == nil || f.usedAt.Before(oldest.usedAt)) {
			oldest = f
		}
	}
	if count <= maxPersonalToolsets || oldest == nil {
		return
	}
	delete(s.toolsets, toolsetKey{oldest.rights, oldest.surface})
	for _, v := range oldest.sharedViews() {
		s.background.Go(v.close)
	}
}

// handler implements transport.Handler.
type handler struct{ s *Server }

// Target implements transport.Handler: it returns the surface in a query, else the server's.
func (h handler) Target(query url.Values) (any, *fault.Error) {
	word := query.Get("surface")
	if word == "" {
		return h.s.opts().Surface, nil
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

// AwaitSources implements transport.Handler.
func (h handler) AwaitSources(ctx context.Context) { steps.Await(ctx, h.s.opts().Catalog, nil) }

// SessionOpened implements transport.Handler.
func (h handler) SessionOpened(n *transport.Session) (ended func()) {
	session := newSession(h.s.toolset(n.Caller.Rights, n.Target.(Surface)), n)
	n.HandlerState = session
	return func() {
		session.view.close()
		session.stored.End()
	}
}

type generationKey struct{}

// BeginMessage implements transport.Handler.
func (h handler) BeginMessage(ctx context.Context) (context.Context, func()) {
	s := h.s
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.now.Load()
	g.running++
	return context.WithValue(ctx, generationKey{}, g), func() { s.unpin(g) }
}

// pin keeps a generation open until unpin. The generation already has a running call.
func (s *Server) pin(g *generation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.running++
}

func (s *Server) unpin(g *generation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.running--; g.running == 0 && g != s.now.Load() {
		close(g.drained)
	}
}

// CallID implements transport.Handler.
func (h handler) CallID(ctx context.Context) string {
	_, id := h.s.opts().Engine.Identify(ctx, "")
	return id
}

// Acquire implements transport.Handler.
func (h handler) Acquire(ctx context.Context, caller string) (release func(), err error) {
	return h.s.opts().Engine.Acquire(ctx, caller)
}
