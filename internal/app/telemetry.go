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

// startTelemetry starts logs and metrics, and traces if the environment asks for them. stop ends them and is called when nothing runs any
// more.
func (s *server) startTelemetry(ctx context.Context) (stop func(), err error) {
	s.telemetry, err = telemetry.New(&telemetry.Options{
		Log: slog.New(s.o.Log), Scrub: s.process.Redactor.Text, Version: s.process.Version,
		Sessions: s.sessions, Running: s.running, Sources: s.sources, Dropped: s.o.Dropped, Unrecorded: s.unrecorded,
	})
	if err != nil {
		return nil, fault.New(fault.Unavailable, "%s", fault.Message(err))
	}
	s.process.telemetry = s.telemetry
	flush := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		if err := s.telemetry.Close(ctx); err != nil {
			s.log.Warn("traces are lost", "error", err)
		}
	}
	if s.o.Metrics == "" {
		return flush, nil
	}
	end, err := s.serveMetrics(ctx)
	if err != nil {
		flush()
		return nil, err
	}
	return func() {
		end()
		flush()
	}, nil
}

// observer returns the engine's observer; nil: none.
func (p *process) observer() chain.Observer {
	if p.telemetry == nil {
		return nil // not a nil of its type
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

// serveMetrics serves metrics and health checks until stop is called. The address has no tokens: everyone who reaches it may ask.
func (s *server) serveMetrics(ctx context.Context) (stop func(), err error) {
	host, port, err := splitAddress("--metrics", s.o.Metrics)
	if err != nil {
		return nil, err
	}
	listener, err := listen(ctx, "--metrics", host, port)
	if err != nil {
		return nil, err
	}
	if !loopback.Is(host) {
		s.log.Warn("other machines reach the metrics, which name functions and sources, without a token", "address", listener.Addr().String())
	}
	server := &http.Server{
		Handler:           s.metricsHandler(loopback.Is(host)),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.o.Log, slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	s.process.Reporter.Note("metrics on http://%s/metrics", listener.Addr())
	return func() {
		_ = server.Close() // scrapers try again
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("the metrics were not served any more", "error", err)
		}
	}, nil
}

// metricsHandler serves metrics and health checks. If local is set, only requests with a loopback host are answered, so that no web page
// can read them through DNS rebinding.
func (s *server) metricsHandler(local bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.telemetry.Handler())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := s.ready(r.Context()); err != nil {
			http.Error(w, fault.Message(err), http.StatusServiceUnavailable)
			return
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
