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
		Long: "Be an MCP server: for one client over stdin and stdout, or with --http for any number of clients. Those on other machines\n" +
			"need tokens (access in the configuration; onecall auth token makes one). The configuration is loaded again when it\n" +
			"changes, and at SIGHUP. It ends with its client, or at an interrupt; calls that run then have ten seconds to end.\n" +
			"Warnings and logs go to stderr.",
		Args:        cobra.NoArgs,
		RunE:        func(cmd *cobra.Command, _ []string) error { return c.serve(cmd, f) },
		Annotations: map[string]string{isService: "yes"},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.http, "http", "", "serve Streamable HTTP on this `address`, such as :8080, which is 127.0.0.1:8080; any other machine's clients need tokens")
	flags.StringVar(&f.metrics, "metrics", "", "serve /metrics, /healthz and /readyz on an `address` of their own, such as :9090, which is 127.0.0.1:9090")
	flags.StringVar(&f.surface, "surface", "", "the tools that clients see: chain, dispatch, flat or hybrid (default: the configuration's)")
	flags.StringVar(&f.logLevel, "log-level", "", "what is logged: debug, info, warn or error (default: warn; with --http info)")
	flags.StringVar(&f.logFormat, "log-format", "text", "how logs are written: text, or json, a line for each")
	flags.StringVar(&f.replica, "replica", "", "with --http: the `name` by which the ids of sessions begin, for a balancer in front of several servers (default: the host's)")
	flags.BoolVar(&f.stateless, "stateless", false, "with --http: no client has a session, also those that could")
	flags.DurationVar(&f.keepAlive, "keep-alive", 0, "over stdio: ping the client so often; when it leaves three unanswered, it is gone (default: never)")
	flags.StringVar(&f.record, "record", "", "append each call to a `file`")
	flags.StringVar(&f.replay, "replay", "", "answer calls from a recording, and call nothing: a `file`")
	return cmd
}

// check checks the flags by themselves.
func (f *serveFlags) check(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	surface, err := mcp.ParseSurface(f.surface)
	if given("surface") && err != nil {
		return usage("--surface: %v", fault.Message(err))
	}
	if given("surface") {
		f.surface = surface.String()
	}
	switch {
	case given("http") && f.http == "", given("metrics") && f.metrics == "":
		return usage("--http and --metrics are addresses: write one such as 127.0.0.1:8080 or :8080")
	case given("log-level") && !isWord(f.logLevel, "debug info warn error"):
		return usage("--log-level is %q: use debug, info, warn or error", f.logLevel)
	case !isWord(f.logFormat, "text json"):
		return usage("--log-format is %q: use text or json", f.logFormat)
	case given("replica") && !given("http"):
		return usage("--replica goes with --http: over stdio there is one client")
	case given("replica") && (f.replica == "" || transport.ReplicaName(f.replica) != f.replica):
		return usage("--replica is %q: use 1 to 63 letters, digits and -", f.replica)
	case f.stateless && !given("http"):
		return usage("--stateless goes with --http: over stdio there is one client, and its session")
	case f.keepAlive < 0:
		return usage("--keep-alive is %v: it cannot be below zero", f.keepAlive)
	case f.keepAlive > 0 && given("http"):
		return usage("--keep-alive goes with stdio: over HTTP a client need not keep a stream open that a ping could reach; there a session ends "+
			"that was not used for %v", transport.DefaultSessionTimeout)
	}
	if f.replica == "" {
		f.replica = replicaOfHost()
	}
	return nil
}

// replicaOfHost is the host's name as that of a replica.
func replicaOfHost() string {
	name, _ := os.Hostname() // "" if it is not known
	return cmp.Or(transport.ReplicaName(name), "onecall")
}

// level is the minimum log level: info over HTTP, warn over stdio, unless a flag says otherwise.
func (f *serveFlags) level() slog.Level {
	level := slog.LevelWarn
	if f.http != "" {
		level = slog.LevelInfo
	}
	if f.logLevel != "" {
		_ = level.UnmarshalText([]byte(f.logLevel)) // it is one of the words
	}
	return level
}

// serve is the verb. Wrong flags are reported before anything is opened.
func (c *cli) serve(cmd *cobra.Command, f *serveFlags) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	hangups, unhang := hangups() // before all else: one that comes while the server starts, or ends, does not end it
	defer unhang()
	lines := logline.NewQueue(c.err)
	defer lines.Close()
	c.err = lines
	log := c.newLog(f)
	lines.ReportTo(slog.New(log.Handler))
	log.SetDefault()
	o := &app.ServeOptions{HTTP: f.http, Metrics: f.metrics, Stateless: f.stateless, Replica: f.replica, KeepAlive: f.keepAlive,
		Log: log.Handler, JSON: f.jsonLog(), Dropped: lines.Dropped, Reload: hangups, Orphaned: c.endIfOrphaned}
	if f.http == "" {
		c.useStdio(o)
	}
	err := app.Serve(cmd.Context(), c.options(app.Options{Record: f.record, Replay: f.replay, Surface: f.surface}), o)
	if refused := new(config.Error); f.jsonLog() && errors.As(err, &refused) {
		app.LogRefused(slog.New(log.Handler), refused)
		return answered(exitConfiguration) // the log says the rest
	}
	return err
}

func (f *serveFlags) jsonLog() bool { return f.logFormat == "json" }

// newLog begins the log on stderr. With JSON all else that the command writes there is a record too.
func (c *cli) newLog(f *serveFlags) *logline.Log {
	log := logline.New(c.err, &logline.Options{Level: f.level(), JSON: f.jsonLog(), Scrub: c.redactor.Text})
	c.err = log.Notes
	return log
}

// endIfOrphaned ends the server if the terminal that it was started from is gone.
func (s *streams) endIfOrphaned() bool {
	if !s.terminalGone() {
		return false
	}
	interruptSelf()
	return true
}

// useStdio takes stdin and stdout for the protocol. Whatever else is written to stdout from now on goes to stderr.
func (c *cli) useStdio(o *app.ServeOptions) {
	o.In, o.Out = io.NopCloser(c.in), unclosed{c.out}
	if in, ok := c.in.(io.ReadCloser); ok {
		o.In = in
	}
	c.out = c.err
	os.Stdout = os.Stderr
	// A client that has gone is an error of writing, not the end of the process. (Ignored, the signal would be for servers that
	// are started, too.)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if c.inTerminal {
		c.note("waiting on stdin for the messages of an MCP client, which starts this command by itself; --http serves any number")
	}
}

// unclosed is an output that stays open.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

func isWord(word, words string) bool {
	for known := range strings.FieldsSeq(words) {
		if known == word {
			return true
		}
	}
	return false
}
