package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/loopback"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// listener accepts clients and serves them.
type listener interface {
	serve(ctx context.Context, s *server, server *mcp.Server, a *App) error
	io.Closer
}

// listen opens the listener that the options ask for.
func (s *server) listen(ctx context.Context) (listener, error) {
	if s.o.HTTP != "" {
		return s.listenHTTP(ctx)
	}
	return stdio{s.o.In, s.o.Out}, nil
}

// stdio serves the one client that started the command.
type stdio struct {
	in  io.ReadCloser
	out io.WriteCloser
}

func (l stdio) serve(ctx context.Context, s *server, server *mcp.Server, a *App) error {
	// The client is this machine's user, who also owns the results of the command line.
	caller := &steps.Caller{Rights: a.stdioRights()}
	close(s.accepting)
	err := server.ServeStdio(ctx, l.in, l.out, caller)
	server.Drain() // waits for the runs that the client left in the background
	if err != nil {
		return Failure{err}
	}
	return nil
}

func (a *App) stdioRights() steps.Rights {
	return steps.Rights{Tier: config.TierOf(a.config.Access.Stdio, steps.TierReadWrite), Credentials: a.local}
}

func (stdio) Close() error { return nil }

// httpListener serves any number of clients.
type httpListener struct{ net.Listener }

// listenHTTP opens the address for clients, and records in process.remote whether other machines reach it. If they do, it first checks
// that the configuration allows remote clients.
func (s *server) listenHTTP(ctx context.Context) (listener, error) {
	host, port, err := splitAddress("--http", s.o.HTTP)
	if err != nil {
		return nil, err
	}
	if s.process.remote = !loopback.Is(host); s.process.remote {
		config, faults := config.Load(s.process.Config)
		if f := config.Access.RemoteFault(); f != nil && len(faults) == 0 { // open reports the other faults
			return nil, fault.New(fault.Unavailable, "--http is %s: %s", s.o.HTTP, f.Message)
		}
	}
	listener, err := listen(ctx, "--http", host, port)
	if err != nil {
		return nil, err
	}
	return &httpListener{listener}, nil
}

// splitAddress returns the host and port of an address. The default host is 127.0.0.1.
func splitAddress(flag, address string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(address)
	if err != nil {
		return "", "", fault.New(fault.BadRequest, "%s is %q: write an address such as 127.0.0.1:8080 or :8080", flag, address)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return host, port, nil
}

// checkAddresses refuses one address for both clients and metrics, which then could not be told apart from another program's.
func (o *ServeOptions) checkAddresses() error {
	if o.HTTP == "" || o.Metrics == "" {
		return nil
	}
	var addresses [2]string
	for i, flag := range [][2]string{{"--http", o.HTTP}, {"--metrics", o.Metrics}} {
		host, port, err := splitAddress(flag[0], flag[1])
		if err != nil {
			return err
		}
		addresses[i] = net.JoinHostPort(host, port)
	}
	if addresses[0] != addresses[1] || strings.HasSuffix(addresses[0], ":0") { // 0: any free port
		return nil
	}
	return fault.New(fault.BadRequest, "--http and --metrics are both %s, and onecall listens on it for one of them only: give --metrics another port",
		addresses[0])
}

func listen(ctx context.Context, flag, host, port string) (net.Listener, error) {
	var config net.ListenConfig
	address := net.JoinHostPort(host, port)
	listener, err := config.Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE): // may be temporary: the other program may be about to end
		return nil, Failure{fmt.Errorf("%s: another program listens on %s: end it, or choose another port (%w)", flag, address, cause(err))}
	case err != nil:
		return nil, fault.New(fault.Unavailable, "%s: cannot listen on %s: %v", flag, address, cause(err))
	}
	return listener, nil
}

// cause returns the cause of a network error without the address, which the message already has.
func cause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// access returns which clients are served over HTTP and what they may know of the configuration; nil: the server uses stdio.
func (s *server) access(a *App) *transport.Access {
	if !a.process.overHTTP {
		return nil
	}
	access := &a.config.Access
	d := &transport.Access{
		Anyone: steps.Caller{ID: anonymous, Rights: steps.Rights{Tier: config.TierOf(access.HTTP, steps.TierRead)}},
		URL:    config.Or(access.URL, ""), Hosts: access.Hosts, Ready: s.ready,
	}
	if a.credentials != nil {
		d.Credentials = a.credentials.Bring
	}
	if a.callers == nil {
		return d
	}
	d.Callers = transport.RevocableCallers(a.callers)
	if a.config.NeedsPerson() {
		d.Callers = agents{a.callers, personRule(&a.config.Config)}
	}
	if access.JWT != nil {
		d.Issuers, d.Scopes = a.callers.Issuers(), slices.Sorted(maps.Keys(access.JWT.Scopes))
	}
	return d
}

func (d *httpListener) serve(ctx context.Context, s *server, server *mcp.Server, a *App) error {
	s.process.Reporter.Notice("listening on http://%s%s", d.Addr(), transport.Path)
	if s.o.ConsoleFlags != nil {
		s.process.Reporter.Notice("the console is at %s", s.consoleURL(a, d.Addr().String()))
	}
	if s.process.remote && !strings.HasPrefix(config.Or(a.config.Access.URL, ""), "https://") {
		s.process.Reporter.Warn(fault.New(fault.BadRequest,
			"%s is served without TLS: others on the network can read tokens, unless a proxy in front of it terminates TLS", d.Addr()))
	}
	listener := &drainListener{Listener: d.Listener, onAccept: sync.OnceFunc(func() { close(s.accepting) })}
	if err := server.ServeHTTP(ctx, listener, s.access(a)); err != nil {
		return Failure{err}
	}
	return nil
}

// Close closes the listener. Closing it again is no error.
func (d *httpListener) Close() error {
	if err := d.Listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
