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

// listener is where clients come in.
type listener interface {
	serve(ctx context.Context, s *server, server *mcp.Server, a *App) error
	io.Closer
}

// listen opens what the options say.
func (s *server) listen(ctx context.Context) (listener, error) {
	if s.o.HTTP != "" {
		return s.listenHTTP(ctx)
	}
	return stdio{s.o.In, s.o.Out}, nil
}

// stdio is for the one client that has started the command.
type stdio struct {
	in  io.ReadCloser
	out io.WriteCloser
}

func (l stdio) serve(ctx context.Context, s *server, server *mcp.Server, a *App) error {
	// The client is the user of this machine, to whom the command line's results are bound as well.
	caller := &steps.Caller{Rights: a.stdioRights()}
	close(s.open)
	if err := server.ServeStdio(ctx, l.in, l.out, caller); err != nil {
		return Failure{err}
	}
	return nil
}

func (a *App) stdioRights() steps.Rights {
	return steps.Rights{Tier: config.TierOf(a.config.Access.Stdio, steps.TierReadWrite)}
}

func (stdio) Close() error { return nil }

// httpListener is for any number of clients.
type httpListener struct{ net.Listener }

// listenHTTP opens the address for clients. That other machines reach it is checked first, since whoever comes from there must
// have a token.
func (s *server) listenHTTP(ctx context.Context) (listener, error) {
	host, port, err := splitAddress("--http", s.o.HTTP)
	if err != nil {
		return nil, err
	}
	if s.process.remote = !loopback.Is(host); s.process.remote {
		config, faults := config.Load(s.process.Config)
		if f := config.Access.UnfitForRemote(); f != nil && len(faults) == 0 { // faults are told when the configuration is opened
			return nil, fault.New(fault.Unavailable, "--http is %s: %s", s.o.HTTP, f.Message)
		}
	}
	listener, err := listen(ctx, "--http", host, port)
	if err != nil {
		return nil, err
	}
	return &httpListener{listener}, nil
}

// splitAddress gives host and port of an address; without a host it is this machine's own.
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

func listen(ctx context.Context, flag, host, port string) (net.Listener, error) {
	var config net.ListenConfig
	address := net.JoinHostPort(host, port)
	listener, err := config.Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE): // which may pass, as when another process is about to end
		return nil, Failure{fmt.Errorf("%s: %s cannot be listened on: %w", flag, address, cause(err))}
	case err != nil:
		return nil, fault.New(fault.Unavailable, "%s: %s cannot be listened on: %v", flag, address, cause(err))
	}
	return listener, nil
}

// cause is the cause in an error of the network, without the address that the message around it names.
func cause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// access says who is served over HTTP, and what of the configuration clients are told; nil: nobody is served that way.
func (s *server) access(a *App) *transport.Access {
	if !a.process.anySurface {
		return nil
	}
	access := &a.config.Access
	d := &transport.Access{
		Anyone: steps.Caller{ID: "http", Rights: steps.Rights{Tier: config.TierOf(access.HTTP, steps.TierRead)}},
		URL:    config.Or(access.URL, ""), Hosts: access.Hosts, Ready: s.ready,
	}
	if a.callers == nil {
		return d
	}
	d.Callers = transport.Keyed(a.callers)
	if access.JWT != nil {
		d.Issuers, d.Scopes = a.callers.Issuers(), slices.Sorted(maps.Keys(access.JWT.Scopes))
	}
	return d
}

func (d *httpListener) serve(ctx context.Context, s *server, server *mcp.Server, a *App) error {
	s.process.Reporter.Note("listening on http://%s%s", d.Addr(), transport.Path)
	if s.process.remote && !strings.HasPrefix(config.Or(a.config.Access.URL, ""), "https://") {
		s.process.Reporter.Warn(fault.New(fault.BadRequest, "%s is served without TLS: tokens can be read on the way, unless a proxy before it ends TLS", d.Addr()))
	}
	listener := &openListener{Listener: d.Listener, open: sync.OnceFunc(func() { close(s.open) })}
	if err := server.ServeHTTP(ctx, listener, s.access(a)); err != nil {
		return Failure{err}
	}
	return nil
}

// Close closes the listener, which may be closed already.
func (d *httpListener) Close() error {
	if err := d.Listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
