package mcp

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/dispatch"
)

// Defaults of Options.
const (
	DefaultGrace          = 10 * time.Second
	DefaultMaxSessions    = 1000
	DefaultSessionTimeout = 30 * time.Minute
)

// Server serves one engine and its functions to MCP clients, at any number of doors.
type Server struct {
	o Options

	mu       sync.Mutex
	faces    map[faceKey]*face
	sessions map[*sdk.ServerSession]*session

	calls    tracker
	searched searched
	done     chan struct{} // closed by Close
	closed   sync.Once
	watching sync.WaitGroup
}

// New makes a server. It fails with bad_request where something that is required is missing. The caller closes it.
func New(o *Options) (*Server, error) {
	if o == nil || o.Engine == nil || o.Catalog == nil || o.Counter == nil {
		return nil, fault.New(fault.BadRequest, "Options.Engine, Catalog and Counter are required")
	}
	if o.SessionTokens < 0 {
		return nil, fault.New(fault.BadRequest, "Options.SessionTokens is %d: it cannot be below zero", o.SessionTokens)
	}
	s := &Server{o: *o, faces: map[faceKey]*face{}, sessions: map[*sdk.ServerSession]*session{}, done: make(chan struct{})}
	s.o.Name = cmp.Or(s.o.Name, "onecall")
	s.o.Version = cmp.Or(s.o.Version, "dev")
	s.o.Grace = cmp.Or(s.o.Grace, DefaultGrace)
	s.o.MaxSessions = cmp.Or(s.o.MaxSessions, DefaultMaxSessions)
	s.o.SessionTimeout = cmp.Or(s.o.SessionTimeout, DefaultSessionTimeout)
	s.o.MaxRequestBytes = cmp.Or(s.o.MaxRequestBytes, chain.DefaultMaxRequestBytes)
	if s.o.Dispatch == nil {
		s.o.Dispatch, _ = dispatch.New(nil)
	}
	if s.o.Log == nil {
		s.o.Log = slog.New(slog.DiscardHandler)
	}
	s.watching.Go(s.watch)
	return s, nil
}

// Close ends all sessions and what watches the sources, at once. It may be called more than once. The engine and the
// catalogue stay open.
func (s *Server) Close() {
	s.closed.Do(func() { close(s.done) })
	s.calls.cut()
	s.endSessions(nil)
	done := make(chan error, 1)
	go func() {
		s.watching.Wait()
		done <- nil
	}()
	_ = bidden(done)
}

// watch keeps what is shown in step with the sources.
func (s *Server) watch() {
	for {
		changed := s.o.Catalog.Changed()
		for _, f := range s.allFaces() {
			f.refresh()
		}
		select {
		case <-changed:
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
	access  Access
	surface Surface
}

// face gives the face of a caller on a surface.
func (s *Server) face(a Access, surface Surface) *face {
	a.Tier = max(a.Tier, steps.TierRead)
	key := faceKey{a, surface}
	s.mu.Lock()
	f, made := s.faces[key]
	if !made {
		f = s.newFace(a, surface)
		s.faces[key] = f
	}
	s.mu.Unlock()
	if !made {
		f.refresh()
	}
	return f
}

// tracker counts the calls that are under way, so that a server that is shut down can let them end.
type tracker struct {
	mu      sync.Mutex
	running int
	closing bool
	idle    chan struct{} // closed when nothing runs any more while the server closes
	cutting context.CancelCauseFunc
	life    context.Context
}

// start lets a call begin: its context ends when the server has no more patience. It is refused once the server closes.
func (t *tracker) start(ctx context.Context) (context.Context, func(), *fault.Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.init()
	if t.closing {
		return nil, nil, fault.New(fault.Unavailable, "the server is shutting down: nothing of this call was run")
	}
	t.running++
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(t.life, func() { cancel(context.Cause(t.life)) })
	return ctx, func() {
		stop()
		cancel(nil)
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.running--; t.running == 0 && t.closing {
			close(t.idle)
		}
	}, nil
}

// ending tells whether no call begins any more.
func (t *tracker) ending() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closing
}

func (t *tracker) init() {
	if t.life == nil {
		t.life, t.cutting = context.WithCancelCause(context.Background())
		t.idle = make(chan struct{})
	}
}

// drain refuses new calls, and waits until those that run have ended, for at most patience; then it cancels them and
// waits a moment for their answers.
func (t *tracker) drain(patience time.Duration) {
	t.mu.Lock()
	t.init()
	if !t.closing && t.running == 0 {
		close(t.idle)
	}
	t.closing = true
	t.mu.Unlock()
	select {
	case <-t.idle:
		return
	case <-time.After(patience):
	}
	t.cut()
	select {
	case <-t.idle:
	case <-time.After(2 * time.Second):
	}
}

// cut cancels all that runs.
func (t *tracker) cut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.init()
	t.cutting(fault.New(fault.Cancelled, "the server was shut down before the call had ended"))
}
