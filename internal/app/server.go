package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/durable"
	"github.com/onecall-mcp/onecall/internal/telemetry"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// ServeOptions describe how functions are served.
type ServeOptions struct {
	// HTTP is the address for clients; "": there is one client, over In and Out.
	HTTP string
	In   io.ReadCloser
	Out  io.WriteCloser

	// ConsoleFlags are the flags with which commands on this machine find this configuration (console.Backend.Flags), if the console is
	// served; nil: it is not.
	ConsoleFlags *string

	Metrics   string        // address of metrics and health checks; "": they are not served
	Stateless bool          // HTTP clients have no sessions
	Replica   string        // prefix of session ids, which tells a proxy the replica; "": none
	KeepAlive time.Duration // the time between pings over In and Out; 0: no pings

	Log     slog.Handler
	JSON    bool       // the log is for programs: reloads are only logged, not also shown as messages
	Dropped func() int // returns how many log lines were dropped

	// Engine opens the engine that hands runs to workers; nil: there is none. EngineFlag reports whether a flag names the engine, so
	// that the configuration need not.
	Engine     func(context.Context, *App) (durable.Engine, error)
	EngineFlag bool

	Reload   <-chan os.Signal // each signal reloads the configuration
	Orphaned func() bool      // reports whether the terminal is gone, which the signal then means; it ends the server
}

// server serves clients while apps replace each other.
type server struct {
	o         *ServeOptions
	process   *process
	log       *slog.Logger // adds the chain and step of the context
	telemetry *telemetry.Telemetry
	accepting chan struct{}      // closed when clients can connect
	notify    func(state string) // reports the state to the service manager

	current   atomic.Pointer[App] // the app that is served
	server    atomic.Pointer[mcp.Server]
	readiness readiness
	engines   engines
	console   http.Handler // nil: it is not served
}

// Serve serves the configuration until the client disconnects or ctx ends. It reloads the configuration when it changes. It returns a
// *config.Error if the configuration is invalid.
func Serve(ctx context.Context, o *Options, so *ServeOptions) (err error) {
	s := &server{o: so, log: slog.New(telemetry.LogHandler(so.Log)), accepting: make(chan struct{}), notify: notifier(),
		engines: engines{open: so.Engine}}
	s.process = newProcess(o, serverTraits{serve: true, overHTTP: so.HTTP != "", console: so.ConsoleFlags != nil, log: s.log, workers: so.Engine != nil,
		engineFlag: so.EngineFlag, stateless: so.Stateless})
	s.console = s.newConsole()
	if err := so.checkAddresses(); err != nil {
		return err
	}
	in, err := s.listen(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	stop, err := s.startTelemetry(ctx)
	if err != nil {
		return err
	}
	defer stop()
	defer func() { err = errors.Join(err, s.process.close()) }()
	defer s.engines.close()
	a, err := s.process.open(nil)
	if err != nil {
		return err
	}
	if err := a.awaitLadder(ctx); err != nil {
		return errors.Join(err, a.close())
	}
	return s.run(ctx, in, a)
}

// run serves a and the apps that replace it, and closes them.
func (s *server) run(ctx context.Context, in listener, a *App) (err error) {
	s.use(a)
	server, err := mcp.New(s.options(a))
	if err != nil {
		return errors.Join(err, a.close())
	}
	s.server.Store(server)
	r := s.startReloader(ctx, a)
	defer func() {
		r.stop()
		server.Close()
		err = errors.Join(err, r.close())
	}()
	defer noticeSlowShutdown(ctx, s.process.Reporter)()
	return in.serve(ctx, s, server, a)
}

// defaultBlockBytes is the default of results.maxBlockBytes.
const defaultBlockBytes = 1 << 20

// options returns the MCP server's options, from the flags and the configuration of a.
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
			Console:         s.console,
		},
		Engine: a.Engine, Catalog: a.Catalog, Counter: a.Counter, Scrubber: a.scrubber, Dispatch: a.dispatch, Hoist: c.Hoist,
		Surface:        surfaceOf(&c.Config),
		ReadTool:       config.Or(c.ReadTool, false),
		Lite:           config.Or(c.Lite, false),
		MaxTotalTokens: a.maxTotalTokens,
		MaxBlockBytes:  int64(config.Or(c.Results.MaxBlockBytes, defaultBlockBytes)),
		SessionTokens:  config.Or(c.Session.MaxTokens, 0),
		Processed:      boundsFlatTools(&c.Config),
		Passthrough:    a.passthrough(),
		Workers:        s.workers(a),
		Version:        s.process.Version,
		Trace:          telemetry.WithCall,
		Context:        a.requestContext(),
		Labels:         a.sessionLabels(),
		Unready: func(ctx context.Context) string {
			if err := s.ready(ctx); err != nil {
				return fault.Message(err)
			}
			return ""
		},
		Hidden: func() string {
			for _, f := range a.subject().hiddenFunctions() {
				return f.Message
			}
			return ""
		},
	}
}

// use makes an app the one that is served, at the start and after each reload.
func (s *server) use(a *App) {
	s.current.Store(a)
	s.warn(a, atStart)
}

// warn warns of what the checks of a moment find.
func (s *server) warn(a *App, when moment) {
	for _, f := range a.found(when) {
		a.warn(f)
	}
}

// startChecks starts the background checks of an app. They log changes of its sources and probe its store, and, once the sources have
// started, warn of what the table of checks finds. stop ends them.
func (s *server) startChecks(ctx context.Context, a *App) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() { s.logSources(ctx, a) })
	waiting.Go(func() { s.probeStore(ctx, a) })
	waiting.Go(func() {
		steps.Await(ctx, a.Catalog, nil)
		if a.Catalog.Starting() != nil {
			return // ctx ended first
		}
		s.warn(a, whenReady)
		for changed := a.Catalog.Changed(); ; changed = a.Catalog.Changed() { // sources come and go at any time
			s.warn(a, whenChanged)
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

// slowShutdownAfter is how long shutting down may take before a message says what it waits for.
const slowShutdownAfter = 300 * time.Millisecond

// noticeSlowShutdown waits in the background for the end of ctx. It then shows a message that calls are still running, unless ended is
// called within slowShutdownAfter.
func noticeSlowShutdown(ctx context.Context, r Reporter) (ended func()) {
	done := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		select {
		case <-ctx.Done():
		case <-done:
			return
		}
		select {
		case <-time.After(slowShutdownAfter):
			r.Notice("shutting down: running calls have up to %v to end; interrupt again to stop now", transport.DefaultGrace)
		case <-done:
		}
	})
	return func() {
		close(done)
		waiting.Wait()
	}
}
