package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/auth"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/loopback"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// door is where clients come in.
type door interface {
	serve(ctx context.Context, s *instance, server *mcp.Server, a *app) error
	io.Closer
}

// open opens the door that the flags say.
func (s *instance) open(ctx context.Context, http bool) (door, error) {
	if http {
		return s.listenHTTP(ctx)
	}
	return s.stdio()
}

// stdioDoor is for the one client that has started the command.
type stdioDoor struct {
	in  io.ReadCloser
	out io.WriteCloser
}

// stdio takes stdin and stdout for the protocol. Whatever else is written to stdout from now on goes to stderr.
func (c *cli) stdio() (door, error) {
	d := &stdioDoor{in: io.NopCloser(c.in), out: unclosed{c.out}}
	if in, ok := c.in.(io.ReadCloser); ok {
		d.in = in
	}
	c.out = c.err
	os.Stdout = os.Stderr
	// A client that has gone is an error of writing, not the end of the process. (Ignored, the signal would be for servers that
	// are started, too.)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if c.inTerminal {
		c.note("waiting on stdin for the messages of an MCP client, which starts this command by itself; --http serves any number")
	}
	return d, nil
}

func (d *stdioDoor) serve(ctx context.Context, s *instance, server *mcp.Server, a *app) error {
	// The client is the user of this machine, to whom the command line's results are bound as well.
	caller := &auth.Caller{Rights: auth.Rights{Tier: config.TierOf(a.config.Access.Stdio, steps.TierReadWrite)}}
	close(s.serving)
	if err := server.ServeStdio(ctx, d.in, d.out, caller); err != nil {
		return failure{err}
	}
	return nil
}

func (*stdioDoor) Close() error { return nil }

// unclosed is an output that stays open.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// httpDoor is for any number of clients.
type httpDoor struct{ net.Listener }

// listenHTTP opens the address for clients. That other machines reach it is checked first, since whoever comes from there must
// have a token.
func (s *instance) listenHTTP(ctx context.Context) (door, error) {
	host, port, err := splitAddress("--http", s.flags.http)
	if err != nil {
		return nil, err
	}
	if s.flags.use.remote = !loopback.Is(host); s.flags.use.remote {
		config, faults := config.Load(s.configPath)
		if f := config.Access.UnfitForRemote(); f != nil && len(faults) == 0 { // faults are told when the configuration is opened
			return nil, unable("--http is %s: %s", s.flags.http, f.Message)
		}
	}
	listener, err := listen(ctx, "--http", host, port)
	if err != nil {
		return nil, err
	}
	return &httpDoor{listener}, nil
}

// splitAddress gives host and port of an address; without a host it is this machine's own.
func splitAddress(flag, address string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(address)
	if err != nil {
		return "", "", usage("%s is %q: write an address such as 127.0.0.1:8080 or :8080", flag, address)
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
		return nil, failure{fmt.Errorf("%s: %s cannot be listened on: %w", flag, address, cause(err))}
	case err != nil:
		return nil, unable("%s: %s cannot be listened on: %v", flag, address, cause(err))
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
func (s *instance) access(a *app) *transport.Access {
	if !a.use.anySurface {
		return nil
	}
	access := &a.config.Access
	d := &transport.Access{
		Anyone: auth.Caller{ID: "http", Rights: auth.Rights{Tier: config.TierOf(access.HTTP, steps.TierRead)}},
		URL:    config.Or(access.URL, ""), Hosts: access.Hosts, Ready: s.ready,
	}
	if a.callers == nil {
		return d
	}
	d.Callers = a.callers
	if a.callers.jwt != nil {
		d.Issuers, d.Scopes = a.callers.jwt.Issuers(), slices.Sorted(maps.Keys(access.JWT.Scopes))
	}
	return d
}

func (d *httpDoor) serve(ctx context.Context, s *instance, server *mcp.Server, a *app) error {
	s.note("listening on http://%s%s", d.Addr(), transport.Path)
	if s.flags.use.remote && !strings.HasPrefix(config.Or(a.config.Access.URL, ""), "https://") {
		s.warn(fault.New(fault.BadRequest, "%s is served without TLS: tokens can be read on the way, unless a proxy before it ends TLS", d.Addr()))
	}
	listener := &openListener{Listener: d.Listener, open: sync.OnceFunc(func() { close(s.serving) })}
	if err := server.ServeHTTP(ctx, listener, s.access(a)); err != nil {
		return failure{err}
	}
	return nil
}

// Close closes the listener, which may be closed already.
func (d *httpDoor) Close() error {
	if err := d.Listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
