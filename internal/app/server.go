package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/telemetry"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// ServeOptions say how the functions are served.
type ServeOptions struct {
	// HTTP is the address at which clients connect; "": there is one client, over In and Out.
	HTTP string
	In   io.ReadCloser
	Out  io.WriteCloser

	Metrics   string        // the address for operators; "": none
	Stateless bool          // no client over HTTP has a session
	Replica   string        // begins the ids of sessions
	KeepAlive time.Duration // between pings over In and Out; 0: never

	Log     slog.Handler
	JSON    bool       // the log is for programs: changes of the configuration are not noted in words too
	Dropped func() int // lines of the log that were given up

	Reload   <-chan os.Signal // each loads the configuration again
	Orphaned func() bool      // reports whether such a signal says that the terminal is gone, and the server ends
}

// server is what serves while apps come and go.
type server struct {
	o         *ServeOptions
	process   *process
	log       *slog.Logger // with the chain and the step that a context is of
	telemetry *telemetry.Telemetry
	open      chan struct{}      // closed when clients are let in
	notify    func(state string) // tells the service manager

	current atomic.Pointer[App] // that is served
	server  atomic.Pointer[mcp.Server]
	looked  looked
}

// Serve serves what the configuration says, until the client has gone or ctx ends. It loads the configuration again when it has
// changed. A configuration that cannot be used is a *config.Error.
func Serve(ctx context.Context, o *Options, so *ServeOptions) (err error) {
	s := &server{o: so, log: slog.New(telemetry.LogHandler(so.Log)), open: make(chan struct{}), notify: notifier()}
	s.process = newProcess(o, serving{serve: true, anySurface: so.HTTP != "", log: s.log})
	in, err := s.listen(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	stop, err := s.observe(ctx)
	if err != nil {
		return err
	}
	defer stop()
	defer func() { err = errors.Join(err, s.process.close()) }()
	a, err := s.process.open(nil)
	if err != nil {
		return err
	}
	if err := a.awaitLadder(ctx); err != nil {
		return errors.Join(err, a.close())
	}
	return s.run(ctx, in, a)
}

// run serves apps, a first. It closes them.
func (s *server) run(ctx context.Context, in listener, a *App) (err error) {
	s.current.Store(a)
	s.warnOfIdle(a)
	server, err := mcp.New(s.options(a))
	if err != nil {
		return errors.Join(err, a.close())
	}
	s.server.Store(server)
	r := s.reloading(ctx, a)
	defer func() {
		r.stop()
		server.Close()
		err = errors.Join(err, r.close())
	}()
	defer s.tellOfEnding(ctx)()
	return in.serve(ctx, s, server, a)
}

// options are the options of the server, as the flags and a configuration say.
func (s *server) options(a *App) *mcp.Options {
	c := a.config
	return &mcp.Options{
		Options: transport.Options{
			Log:             s.log,
			MaxRequestBytes: a.MaxRequestBytes,
			MaxSessions:     config.Or(c.Limits.MaxSessions, 0),
			CallerCalls:     config.Or(c.Access.Limits.Calls, 0),
			Refused:         s.telemetry.Refused,
			Stateless:       s.o.Stateless,
			Replica:         s.o.Replica,
			KeepAlive:       s.o.KeepAlive,
		},
		Engine: a.Engine, Catalog: a.Catalog, Counter: a.Counter, Scrubber: a.scrubber, Dispatch: a.dispatch, Hoist: c.Hoist,
		Surface:        surfaceOf(&c.Config),
		ReadTool:       config.Or(c.ReadTool, false),
		Lite:           config.Or(c.Lite, false),
		MaxTotalTokens: a.maxTotalTokens,
		SessionTokens:  config.Or(c.Session.MaxTokens, 0),
		Processed:      processed(&c.Config),
		Passthrough:    a.passthrough(),
		Version:        s.process.Version,
		Trace:          telemetry.WithCall,
		Context:        a.requestContext(),
		Unready: func(ctx context.Context) string {
			if err := s.ready(ctx); err != nil {
				return fault.Message(err)
			}
			return ""
		},
		Hidden: func() string {
			if f := a.hiddenFunctions(); f != nil {
				return f.Message
			}
			return ""
		},
	}
}

// warnOfIdle warns of settings that do nothing here.
func (s *server) warnOfIdle(a *App) {
	if f := idleGroups(a.config, surfaceOf(&a.config.Config)); f != nil && !a.process.anySurface {
		a.warn(f)
	}
	if f := idleSession(a.config, s.o.Stateless); f != nil {
		a.warn(f)
	}
}

// warnOfUnused tells of settings, groups and allowed functions that fit nothing, and of very many tools, once the sources are
// there, and of stores that cannot be used. The function that it returns ends the waiting.
func (s *server) warnOfUnused(ctx context.Context, a *App) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() { s.logSources(ctx, a) })
	waiting.Go(func() { s.lookAtStores(ctx, a) })
	waiting.Go(func() {
		steps.Await(ctx, a.Catalog, nil)
		if a.Catalog.Starting() != nil {
			return // the end came first
		}
		for _, f := range a.UnusedSettings() {
			a.warn(f)
		}
		for _, f := range a.unusedAllowed() {
			a.warn(f)
		}
		if f := a.manyFlatTools(a.config.Access.Highest(a.process.anySurface)); f != nil {
			a.warn(f)
		}
		for changed := a.Catalog.Changed(); ; changed = a.Catalog.Changed() { // a source may come, or go, at any time
			if f := a.hiddenFunctions(); f != nil {
				a.warn(f)
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		waiting.Wait()
	}
}

// noticeable is how long a server may take to end before it says what it waits for.
const noticeable = 300 * time.Millisecond

// tellOfEnding says, after an interrupt, that calls are still running. The function that it returns is called when none does.
func (s *server) tellOfEnding(ctx context.Context) (ended func()) {
	done := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		select {
		case <-ctx.Done():
		case <-done:
			return
		}
		select {
		case <-time.After(noticeable):
			s.process.Reporter.Note("ending: calls that are running have up to %v; interrupt again to stop now", transport.DefaultGrace)
		case <-done:
		}
	})
	return func() {
		close(done)
		waiting.Wait()
	}
}
