package cli

import (
	"cmp"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/logline"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/transport"
)

type serveFlags struct {
	http      string
	console   bool
	metrics   string
	stateless bool
	replica   string
	surface   string
	logLevel  string
	logFormat string
	keepAlive time.Duration
	record    string
	replay    string
}

func newServeCommand(c *cli) *cobra.Command {
	f := &serveFlags{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the functions to MCP clients",
		Long: "Be an MCP server: for one client over stdin and stdout, or with --http for any number of clients. Clients on other machines\n" +
			"need tokens (access in the configuration; onecall auth token makes one). The configuration is reloaded when it changes,\n" +
			"and at SIGHUP. The server ends with its client, or at an interrupt; running calls then have ten seconds to end. Warnings\n" +
			"and logs go to stderr.",
		Args:        noArgs,
		RunE:        func(cmd *cobra.Command, _ []string) error { return c.serve(cmd, f) },
		Annotations: map[string]string{serviceAnnotation: "yes"},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.http, "http", "",
		"serve Streamable HTTP on this `address`; :8080 is 127.0.0.1:8080. Clients on other machines need tokens")
	flags.BoolVar(&f.console, "console", false, "with --http: show runs in a browser at /console/, to those who have tokens")
	flags.StringVar(&f.metrics, "metrics", "", "serve /metrics, /healthz and /readyz on a separate `address`; :9090 is 127.0.0.1:9090")
	flags.StringVar(&f.surface, "surface", "", "the tools that clients see: chain, dispatch, flat or hybrid (default: the configuration's)")
	flags.StringVar(&f.logLevel, "log-level", "", "what is logged: debug, info, warn or error (default: warn; with --http info)")
	flags.StringVar(&f.logFormat, "log-format", "text", "format of logs: text, or json with one record per line")
	flags.StringVar(&f.replica, "replica", "",
		"with --http: the `name` that session ids start with, for a load balancer (default: the host's name)")
	flags.BoolVar(&f.stateless, "stateless", false, "with --http: no client gets a session")
	flags.DurationVar(&f.keepAlive, "keep-alive", 0,
		"over stdio: the time between pings; after three without an answer the client is gone (default: no pings)")
	flags.StringVar(&f.record, "record", "", "append each call to a `file`")
	flags.StringVar(&f.replay, "replay", "", "answer each call from a `file` of --record, and call nothing")
	c.engineFlag(cmd)
	return cmd
}

// check checks the flags, and fills in the default of --replica.
func (f *serveFlags) check(cmd *cobra.Command) error {
	isSet := cmd.Flags().Changed
	surface, err := mcp.ParseSurface(f.surface)
	if isSet("surface") && err != nil {
		return usageErrorf("--surface: %v", fault.Message(err))
	}
	if isSet("surface") {
		f.surface = surface.String()
	}
	switch {
	case isSet("http") && f.http == "", isSet("metrics") && f.metrics == "":
		return usageErrorf("--http and --metrics are addresses: write one such as 127.0.0.1:8080 or :8080")
	case isSet("log-level") && !isOneOf(f.logLevel, "debug info warn error"):
		return usageErrorf("--log-level is %q: use debug, info, warn or error", f.logLevel)
	case !isOneOf(f.logFormat, "text json"):
		return usageErrorf("--log-format is %q: use text or json", f.logFormat)
	case isSet("replica") && !isSet("http"):
		return usageErrorf("--replica goes with --http: over stdio there is one client")
	case isSet("replica") && (f.replica == "" || transport.ReplicaName(f.replica) != f.replica):
		return usageErrorf("--replica is %q: use 1 to 63 letters, digits and -", f.replica)
	case f.stateless && !isSet("http"):
		return usageErrorf("--stateless goes with --http: over stdio there is one client, and its session")
	case f.console && !isSet("http"):
		return usageErrorf("--console goes with --http; onecall console shows runs to this machine's user without a server")
	case f.keepAlive < 0:
		return usageErrorf("--keep-alive is %v: it cannot be below zero", f.keepAlive)
	case f.keepAlive > 0 && isSet("http"):
		return usageErrorf("--keep-alive goes with stdio: over HTTP a client may have no open stream for a ping; "+
			"there a session ends when it is not used for %v", transport.DefaultSessionTimeout)
	}
	if f.replica == "" {
		f.replica = replicaOfHost()
	}
	return nil
}

// replicaOfHost returns the host's name as the name of a replica, or onecall if it cannot be one.
func replicaOfHost() string {
	name, _ := os.Hostname() // "" if unknown
	return cmp.Or(transport.ReplicaName(name), "onecall")
}

// level returns the minimum log level: info over HTTP, warn over stdio, unless a flag says otherwise.
func (f *serveFlags) level() slog.Level {
	level := slog.LevelWarn
	if f.http != "" {
		level = slog.LevelInfo
	}
	if f.logLevel != "" {
		_ = level.UnmarshalText([]byte(f.logLevel)) // check has checked the word
	}
	return level
}

// serve runs the command. Wrong flags are reported before anything is opened.
func (c *cli) serve(cmd *cobra.Command, f *serveFlags) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	hangups, stopHangups := notifyHangups() // first, so that a hangup during start or end does not end the server
	defer stopHangups()
	lines := logline.NewQueue(c.err)
	defer lines.Close()
	c.err = lines
	log := c.newLog(f)
	lines.ReportTo(slog.New(log.Handler))
	log.SetDefault()
	o := &app.ServeOptions{HTTP: f.http, Metrics: f.metrics, Stateless: f.stateless, Replica: f.replica, KeepAlive: f.keepAlive,
		Log: log.Handler, JSON: f.jsonLog(), Dropped: lines.Dropped, Reload: hangups, Orphaned: c.endIfOrphaned}
	if config := c.configFlag(); f.console {
		o.ConsoleFlags = &config
	}
	if c.engineOpener != nil {
		o.Engine, o.EngineFlag = c.openEngine, c.engineURL != ""
	}
	if f.http == "" {
		c.useStdio(o)
	}
	err := app.Serve(cmd.Context(), c.options(app.Options{Record: f.record, Replay: f.replay, Surface: f.surface}), o)
	if refused := new(config.Error); f.jsonLog() && errors.As(err, &refused) {
		app.LogRefused(slog.New(log.Handler), refused)
		return exitError(exitConfiguration) // the log has the faults
	}
	return err
}

func (f *serveFlags) jsonLog() bool { return f.logFormat == "json" }

// newLog starts the log on stderr, and replaces c.err with a writer to the log. With JSON, everything that the command writes to c.err
// becomes a record.
func (c *cli) newLog(f *serveFlags) *logline.Log {
	log := logline.New(c.err, &logline.Options{Level: f.level(), JSON: f.jsonLog(), Scrub: c.redactor.Text})
	c.err = log.Messages
	return log
}

// endIfOrphaned ends the server if the terminal that started it is gone, and reports whether it is.
func (s *streams) endIfOrphaned() bool {
	if !s.terminalClosed() {
		return false
	}
	interruptSelf()
	return true
}

// useStdio reserves stdin and stdout for the protocol. Anything else written to stdout goes to stderr.
func (c *cli) useStdio(o *app.ServeOptions) {
	o.In, o.Out = io.NopCloser(c.in), nopWriteCloser{c.out}
	if in, ok := c.in.(io.ReadCloser); ok {
		o.In = in
	}
	c.out = c.err
	os.Stdout = os.Stderr
	// With this, writing to a client that is gone returns an error and does not end the process. (Ignoring the signal would affect the
	// servers that are started, too.)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if c.inTerminal {
		c.noticef("waiting on stdin for the messages of an MCP client, which normally starts this command itself; " +
			"to serve any number of clients, use --http")
	}
}

// nopWriteCloser adds a Close that does nothing.
type nopWriteCloser struct{ io.Writer }

func (nopWriteCloser) Close() error { return nil }

func isOneOf(word, words string) bool {
	for known := range strings.FieldsSeq(words) {
		if known == word {
			return true
		}
	}
	return false
}
