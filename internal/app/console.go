package app

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/console"
	"github.com/onecall-mcp/onecall/internal/loopback"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// ConsoleOptions describe a console for this machine's user.
type ConsoleOptions struct {
	Address string // a loopback address
	Flags   string // see console.Backend
	User    string // who decides; see console.Viewer
	// Opened is called with the address that lets a browser in, once.
	Opened func(url string)
}

// ServeConsole serves the console to this machine's user until ctx ends; then what people have begun has DefaultGrace to end.
// Sources are opened when a page needs them.
func ServeConsole(ctx context.Context, o *Options, co *ConsoleOptions) (err error) {
	host, port, err := splitAddress("--http", co.Address)
	if err != nil {
		return err
	}
	if !loopback.Is(host) {
		return fault.New(fault.Denied, "--http is %s: this console lets nobody log in, so it is for this machine only. For others: "+
			"onecall serve --http … --console", co.Address)
	}
	looking := *o
	looking.NoSources = true
	a, err := Open(ctx, &looking)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	calling := *o
	calling.Calls = true
	calls := &lazyCalls{options: &calling}
	defer func() { err = errors.Join(err, calls.close()) }()
	listener, err := listen(ctx, "--http", host, port)
	if err != nil {
		return err
	}
	link := console.NewOneTimeLink()
	backend := &console.Backend{Journal: a.Journal, Scrubber: a.scrubber, Values: a.ShowsValues(), Flags: co.Flags,
		Open: calls.open, Opened: calls.opened}
	acts := transport.NewTracker()
	pages := console.New(&console.Options{
		Backend: func() *console.Backend { return backend },
		Begin:   acts.Begin,
		Link:    link,
		Identify: func(_ context.Context, credential string) (*console.Viewer, error) {
			if !link.Has(credential) {
				return nil, fault.New(fault.Denied, "this browser was let in by another onecall console")
			}
			return &console.Viewer{Caller: steps.Caller{Rights: steps.Rights{Tier: steps.TierAdmin, Credentials: a.local}}, Name: co.User,
				Shared: true, All: true, Acts: true}, nil
		},
	})
	mux := http.NewServeMux()
	mux.Handle(console.Path, pages)
	mux.Handle("/{$}", http.RedirectHandler(console.Path, http.StatusSeeOther))
	server := &http.Server{Handler: onlyLocal(mux), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10}
	defer noticeSlowShutdown(ctx, o.Reporter)()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	co.Opened(link.URL(listener.Addr().String()))
	select {
	case err = <-served:
	case <-ctx.Done():
		acts.Drain(transport.DefaultGrace)
		_ = server.Close() // pages that stay open would keep it waiting
		err = <-served
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return Failure{err}
}

// onlyLocal answers only requests for a loopback host: a page of another one, which resolves to this machine, gets nothing (DNS rebinding).
func onlyLocal(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			name = r.Host
		}
		if !loopback.Is(name) {
			http.Error(w, "the host is not served here: use localhost or 127.0.0.1", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// lazyCalls is an app that opens when its functions are first needed. If it cannot be opened, the next need tries again.
type lazyCalls struct {
	options *Options
	mu      sync.Mutex
	app     *App
}

func (l *lazyCalls) open(ctx context.Context) (*console.Calls, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.app == nil {
		a, err := Open(context.WithoutCancel(ctx), l.options) // its sources outlast the request that opens them
		if err != nil {
			return nil, err
		}
		l.app = a
	}
	return &console.Calls{Catalog: l.app.Catalog, Run: l.app.Run, BrokenChains: l.app.BrokenChains}, nil
}

func (l *lazyCalls) opened() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.app != nil
}

func (l *lazyCalls) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.app == nil {
		return nil
	}
	return l.app.Close()
}
