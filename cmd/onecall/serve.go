package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/steps"
)

type serveFlags struct {
	http      string
	stateless bool
	surface   string
	logLevel  string
	keepAlive time.Duration
	use       use
}

func newServeCommand(c *cli) *cobra.Command {
	f := &serveFlags{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the functions to MCP clients",
		Long: "Be an MCP server: for one client over stdin and stdout, or with --http for any number of clients on this machine. It\n" +
			"ends with its client, or at an interrupt; calls that run then have ten seconds to end. Warnings and logs go to stderr.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.serve(cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.http, "http", "", "serve Streamable HTTP on this `address` of the machine itself, such as 127.0.0.1:8080 or :8080")
	flags.StringVar(&f.surface, "surface", "", "the tools that clients see: chain, dispatch, flat or hybrid (default: the configuration's)")
	flags.StringVar(&f.logLevel, "log-level", "warn", "what is logged: debug, info, warn or error")
	flags.BoolVar(&f.stateless, "stateless", false, "with --http: no client has a session, also those that could")
	flags.DurationVar(&f.keepAlive, "keep-alive", 0, "over stdio: ping the client so often; when it leaves three unanswered, it is gone (default: never)")
	flags.StringVar(&f.use.record, "record", "", "append each call to a `file`")
	flags.StringVar(&f.use.replay, "replay", "", "answer calls from a recording, and call nothing: a `file`")
	return cmd
}

// serve is the verb. What is wrong with the flags is told before anything is opened.
func (c *cli) serve(cmd *cobra.Command, f *serveFlags) (err error) {
	surface, err := mcp.ParseSurface(f.surface)
	if cmd.Flags().Changed("surface") && err != nil {
		return usage("--surface: %v", message(err))
	}
	var level slog.Level
	if levels := "debug info warn error"; !isWord(f.logLevel, levels) || level.UnmarshalText([]byte(f.logLevel)) != nil {
		return usage("--log-level is %q: use debug, info, warn or error", f.logLevel)
	}
	open := c.stdio
	if cmd.Flags().Changed("http") {
		open = func() (door, error) { return c.listen(cmd.Context(), f.http) }
	}
	if f.stateless && !cmd.Flags().Changed("http") {
		return usage("--stateless goes with --http: over stdio there is one client, and its session")
	}
	if f.keepAlive < 0 {
		return usage("--keep-alive is %v: it cannot be below zero", f.keepAlive)
	}
	if f.keepAlive > 0 && cmd.Flags().Changed("http") {
		return usage("--keep-alive goes with stdio: over HTTP a client need not keep a stream open that a ping could reach; there a session ends "+
			"that was not used for %v", mcp.DefaultSessionTimeout)
	}
	in, err := open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	f.use.serve, f.use.anySurface = true, cmd.Flags().Changed("http") // over HTTP clients choose a surface
	if cmd.Flags().Changed("surface") {
		f.use.surface = surface.String()
	}
	a, err := c.open(f.use)
	if err != nil {
		return err
	}
	defer a.closeInto(&err)
	options := a.serverOptions(slog.NewTextHandler(&scrubbed{c.err, a.scrubber}, &slog.HandlerOptions{Level: level}))
	options.Stateless, options.KeepAlive = f.stateless, f.keepAlive
	if f := a.config.idleGroups(options.Surface); f != nil && !a.config.anySurface {
		c.warn(f)
	}
	if f := a.config.idleSession(f.stateless); f != nil {
		c.warn(f)
	}
	server, err := mcp.New(options)
	if err != nil {
		return err
	}
	defer server.Close()
	defer c.warnOfUnused(cmd.Context(), a, in.tier(&a.config.Access))()
	defer c.tellOfEnding(cmd.Context())()
	return in.serve(cmd.Context(), server, in.tier(&a.config.Access))
}

// message is an error's message, without its code.
func message(err error) string {
	if f, ok := fault.As(err); ok {
		return f.Message
	}
	return err.Error()
}

func isWord(word, words string) bool {
	for known := range strings.FieldsSeq(words) {
		if known == word {
			return true
		}
	}
	return false
}

// serverOptions are the options of the server, as the configuration says.
func (a *app) serverOptions(log slog.Handler) *mcp.Options {
	return &mcp.Options{
		Engine: a.engine, Catalog: a.catalog, Counter: a.counter, Scrubber: a.scrubber, Dispatch: a.dispatch, Hoist: a.config.Hoist,
		Surface:         a.config.surface(),
		Lite:            valueOr(a.config.Lite, false),
		MaxTotalTokens:  a.maxTotalTokens,
		SessionTokens:   valueOr(a.config.Session.MaxTokens, 0),
		Processed:       a.config.processed(),
		Upstreams:       a.upstreams(),
		Version:         version(),
		Log:             slog.New(log),
		MaxRequestBytes: a.maxRequestBytes,
		Context:         a.context,
	}
}

// warnOfUnused tells of settings and groups that fit nothing, and of very many tools, once the sources are there. The function
// that it returns ends the waiting.
func (c *cli) warnOfUnused(ctx context.Context, a *app, tier steps.Tier) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		steps.Await(ctx, a.catalog, nil)
		if a.catalog.Starting() != nil {
			return // the end came first
		}
		for _, f := range a.unusedSettings() {
			c.warn(f)
		}
		if f := a.manyFlatTools(tier); f != nil {
			c.warn(f)
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
func (c *cli) tellOfEnding(ctx context.Context) (ended func()) {
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
			c.note("ending: calls that are running have up to %v; interrupt again to stop now", mcp.DefaultGrace)
		case <-done:
		}
	})
	return func() {
		close(done)
		waiting.Wait()
	}
}

// door is where clients come in.
type door interface {
	tier(access *accessConfig) steps.Tier
	serve(ctx context.Context, s *mcp.Server, tier steps.Tier) error
	io.Closer
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

func (*stdioDoor) tier(access *accessConfig) steps.Tier {
	return tierOf(access.Stdio, steps.TierReadWrite)
}

func (d *stdioDoor) serve(ctx context.Context, s *mcp.Server, tier steps.Tier) error {
	// The client is the user of this machine, to whom the command line's results are bound as well.
	err := s.ServeStdio(ctx, d.in, d.out, mcp.Access{Tier: tier})
	if err != nil {
		return failure{err}
	}
	return nil
}

func (*stdioDoor) Close() error { return nil }

// unclosed is an output that stays open.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// httpDoor is for any number of clients on this machine.
type httpDoor struct {
	net.Listener
	cli *cli
}

// listen opens the address. No address of another network is: there are no rights by token yet.
func (c *cli) listen(ctx context.Context, address string) (door, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, usage("--http is %q: write an address such as 127.0.0.1:8080 or :8080", address)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if ip, err := netip.ParseAddr(host); !strings.EqualFold(host, "localhost") && (err != nil || !ip.IsLoopback()) {
		return nil, fault.New(fault.NotSupported, "--http is %s: this version serves its own machine only, as 127.0.0.1 or localhost; "+
			"other addresses follow with rights for each client", address)
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, unable("--http: %s cannot be listened on: %v", address, cause(err))
	}
	return &httpDoor{listener, c}, nil
}

// cause is the cause in an error of the network, without the address that the message around it names.
func cause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

func (*httpDoor) tier(access *accessConfig) steps.Tier { return tierOf(access.HTTP, steps.TierRead) }

func (d *httpDoor) serve(ctx context.Context, s *mcp.Server, tier steps.Tier) error {
	d.cli.note("listening on http://%s%s", d.Addr(), mcp.Path)
	err := s.ServeHTTP(ctx, d.Listener, mcp.Access{ID: "http", Tier: tier})
	if err != nil {
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

// scrubbed is a log without the configuration's secrets. Each write is a whole line.
type scrubbed struct {
	w        io.Writer
	scrubber *steps.Scrubber
}

// Write implements io.Writer.
func (s *scrubbed) Write(line []byte) (int, error) {
	if _, err := io.WriteString(s.w, s.scrubber.Text(string(line))); err != nil {
		return 0, err
	}
	return len(line), nil
}
