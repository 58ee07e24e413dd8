package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/loopback"
	"github.com/onecall-mcp/onecall/internal/telemetry"
	"github.com/onecall-mcp/onecall/steps"
)

// Monitor shows a long-running process to operators: metrics and health checks, and traces if the environment asks for them.
type Monitor struct {
	Metrics string                          // the address of /metrics, /healthz and /readyz; "": they are not served
	Ready   func(ctx context.Context) error // returns why /readyz fails; nil: it is always ready
}

// startMonitor starts a monitor and sets p.telemetry. stop ends it, and must be called after everything else has ended.
func (p *process) startMonitor(ctx context.Context, m *Monitor, o *telemetry.Options) (stop func(), err error) {
	o.Scrub, o.Version = p.Redactor.Text, p.Version
	log := o.Log
	if log == nil {
		log = slog.Default()
	}
	t, err := telemetry.New(o)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "%s", fault.Message(err))
	}
	p.telemetry = t
	flush := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		if err := t.Close(ctx); err != nil {
			log.Warn("traces are lost", "error", err)
		}
	}
	if m.Metrics == "" {
		return flush, nil
	}
	end, err := p.serveMetrics(ctx, m, log)
	if err != nil {
		flush()
		return nil, err
	}
	return func() {
		end()
		flush()
	}, nil
}

// startTelemetry starts the monitor of a server and sets s.telemetry. stop is as in startMonitor.
func (s *server) startTelemetry(ctx context.Context) (stop func(), err error) {
	stop, err = s.process.startMonitor(ctx, &Monitor{Metrics: s.o.Metrics, Ready: s.ready}, &telemetry.Options{
		Log: slog.New(s.o.Log), Sessions: s.sessions, Running: s.running, Sources: s.sources, Dropped: s.o.Dropped, Unrecorded: s.unrecorded,
	})
	s.telemetry = s.process.telemetry
	return stop, err
}

// Metrics returns the registerer for further metrics of this process; nil: the process has no telemetry.
func (a *App) Metrics() telemetry.Registerer {
	if a.process.telemetry == nil {
		return nil
	}
	return a.process.telemetry.Registerer()
}

// observer returns the engine's observer; nil: none.
func (p *process) observer() chain.Observer {
	if p.telemetry == nil {
		return nil // not a typed nil
	}
	return p.telemetry
}

// countedStore returns a store of results whose operations appear in the metrics, if there are any.
func (p *process) countedStore(d budget.Driver) budget.Driver {
	if p.telemetry == nil {
		return d
	}
	return p.telemetry.Driver("results", d)
}

// flushTimeout bounds sending the last traces.
const flushTimeout = 3 * time.Second

// sessions, running, sources and unrecorded provide values for the metrics. They are zero until there is a server.
func (s *server) sessions() int {
	if server := s.server.Load(); server != nil {
		return server.Stats().Sessions
	}
	return 0
}

func (s *server) running() int {
	if server := s.server.Load(); server != nil {
		return server.Stats().Calls
	}
	return 0
}

func (s *server) sources() []steps.SourceInfo {
	if a := s.current.Load(); a != nil {
		return a.Catalog.Sources()
	}
	return nil
}

func (s *server) unrecorded() int {
	if a := s.current.Load(); a != nil && a.process.recording != nil {
		return a.process.recording.recorder.Lost()
	}
	return 0
}

// serveMetrics serves metrics and health checks until stop is called. It requires no tokens: everyone who reaches the address can read
// them.
func (p *process) serveMetrics(ctx context.Context, m *Monitor, log *slog.Logger) (stop func(), err error) {
	host, port, err := splitAddress("--metrics", m.Metrics)
	if err != nil {
		return nil, err
	}
	listener, err := listen(ctx, "--metrics", host, port)
	if err != nil {
		return nil, err
	}
	if !loopback.Is(host) {
		log.Warn("other machines can read the metrics, which name functions and sources, without a token", "address", listener.Addr().String())
	}
	server := &http.Server{
		Handler:           m.handler(p.telemetry, loopback.Is(host)),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	p.Reporter.Notice("metrics on http://%s/metrics", listener.Addr())
	return func() {
		_ = server.Close() // scrapers try again
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			log.Error("the metrics could no longer be served", "error", err)
		}
	}, nil
}

// handler serves metrics and health checks. If local is set, only requests with a loopback host are answered, so that no web page
// can read them through DNS rebinding.
func (m *Monitor) handler(t *telemetry.Telemetry, local bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", t.Handler())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if m.Ready != nil {
			if err := m.Ready(r.Context()); err != nil {
				http.Error(w, fault.Message(err), http.StatusServiceUnavailable)
				return
			}
		}
		fmt.Fprintln(w, "ok")
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			name = r.Host
		}
		if local && !loopback.Is(name) {
			http.Error(w, fault.New(fault.Denied, "the host is not served here: use localhost or 127.0.0.1").Message, http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}
