package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/telemetry"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
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
	use       use
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
	flags.StringVar(&f.use.record, "record", "", "append each call to a `file`")
	flags.StringVar(&f.use.replay, "replay", "", "answer calls from a recording, and call nothing: a `file`")
	return cmd
}

// check tells what is wrong with the flags by themselves.
func (f *serveFlags) check(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	surface, err := mcp.ParseSurface(f.surface)
	if given("surface") && err != nil {
		return usage("--surface: %v", message(err))
	}
	if given("surface") {
		f.use.surface = surface.String()
	}
	switch {
	case given("log-level") && !isWord(f.logLevel, "debug info warn error"):
		return usage("--log-level is %q: use debug, info, warn or error", f.logLevel)
	case !isWord(f.logFormat, "text json"):
		return usage("--log-format is %q: use text or json", f.logFormat)
	case given("replica") && !given("http"):
		return usage("--replica goes with --http: over stdio there is one client")
	case given("replica") && !replicaName.MatchString(f.replica):
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
	f.use.serve, f.use.anySurface = true, given("http") // over HTTP clients choose a surface
	return nil
}

var replicaName = regexp.MustCompile(`^[A-Za-z0-9-]{1,63}$`)

// replicaOfHost is the host's name as that of a replica.
func replicaOfHost() string {
	name, _ := os.Hostname() // "" if it is not known
	name = regexp.MustCompile(`[^A-Za-z0-9-]`).ReplaceAllString(name, "-")
	return cmp.Or(name[:min(len(name), 63)], "onecall")
}

// level is from where on is logged: who serves many wants to see what they do.
func (f *serveFlags) level() slog.Level {
	level := slog.LevelWarn
	if f.use.anySurface {
		level = slog.LevelInfo
	}
	if f.logLevel != "" {
		_ = level.UnmarshalText([]byte(f.logLevel)) // it is one of the words
	}
	return level
}

// instance is a server with what it keeps while configurations come and go.
type instance struct {
	*cli
	flags     *serveFlags
	lines     *lineQueue // all that is written to stderr
	logs      *logs
	telemetry *telemetry.Telemetry
	in        door
	inform    func(state string) // tells the service manager
	hangups   chan os.Signal     // each has the configuration loaded anew
	serving   chan struct{}      // closed when clients are let in

	current atomic.Pointer[app] // that is served
	server  atomic.Pointer[mcp.Server]
	looked  looked
}

// serve is the verb. What is wrong with the flags is told before anything is opened.
func (c *cli) serve(cmd *cobra.Command, f *serveFlags) (err error) {
	if err := f.check(cmd); err != nil {
		return err
	}
	ctx := cmd.Context()
	hangups, unhang := hangups() // before all else: one that comes while the server starts, or ends, does not end it
	defer unhang()
	lines := newLineQueue(c.err)
	defer lines.Close()
	c.err = lines
	s := &instance{cli: c, flags: f, lines: lines, logs: c.newLogs(f), inform: notifier(), hangups: hangups, serving: make(chan struct{})}
	lines.tell(s.logs)
	s.logs.takeOver()
	if s.in, err = s.open(ctx, cmd.Flags().Changed("http")); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.in.Close()) }()
	stop, err := s.observe(ctx, cmd.Flags().Changed("metrics"))
	if err != nil {
		return err
	}
	defer stop()
	f.use.logs = s.logs
	a, err := c.openLadder(ctx, f.use)
	if err != nil {
		return s.logs.refused(err)
	}
	return s.run(ctx, a)
}

// run serves what the configuration says, until the client has gone or ctx ends. It closes the app and the process.
func (s *instance) run(ctx context.Context, a *app) (err error) {
	defer func() { err = errors.Join(err, a.process.close()) }()
	s.current.Store(a)
	s.warnOfIdle(a)
	server, err := mcp.New(s.options(a))
	if err != nil {
		return errors.Join(err, a.close())
	}
	s.server.Store(server)
	r := s.reloading(ctx, a)
	defer func() {
		r.stop()
		server.Close()
		err = errors.Join(err, r.close())
	}()
	defer s.tellOfEnding(ctx)()
	return s.in.serve(ctx, s, server, a)
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

// options are the options of the server, as the flags and a configuration say.
func (s *instance) options(a *app) *mcp.Options {
	c := a.config
	return &mcp.Options{
		Options: transport.Options{
			Log:             s.logs.logger(),
			MaxRequestBytes: a.maxRequestBytes,
			MaxSessions:     config.Or(c.Limits.MaxSessions, 0),
			Limits:          perCaller(&c.Config),
			Refused:         s.telemetry.Refused,
			Stateless:       s.flags.stateless,
			Replica:         s.flags.replica,
			KeepAlive:       s.flags.keepAlive,
		},
		Engine: a.engine, Catalog: a.catalog, Counter: a.counter, Scrubber: a.scrubber, Dispatch: a.dispatch, Hoist: c.Hoist,
		Surface:        surfaceOf(&c.Config),
		ReadTool:       config.Or(c.ReadTool, false),
		Lite:           config.Or(c.Lite, false),
		MaxTotalTokens: a.maxTotalTokens,
		SessionTokens:  config.Or(c.Session.MaxTokens, 0),
		Processed:      processed(&c.Config),
		Passthrough:    a.passthrough(),
		Version:        version(),
		Trace:          telemetry.WithCall,
		Context:        a.context,
		Hidden: func() string {
			if f := a.hiddenFunctions(); f != nil {
				return f.Message
			}
			return ""
		},
	}
}

// warnOfIdle tells of what is configured and does nothing here.
func (s *instance) warnOfIdle(a *app) {
	if f := idleGroups(a.config, surfaceOf(&a.config.Config)); f != nil && !a.use.anySurface {
		a.warn(f)
	}
	if f := idleSession(a.config, s.flags.stateless); f != nil {
		a.warn(f)
	}
}

// warnOfUnused tells of settings, groups and allowed functions that fit nothing, and of very many tools, once the sources are
// there, and of stores that cannot be used. The function that it returns ends the waiting.
func (s *instance) warnOfUnused(ctx context.Context, a *app) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() { s.logSources(ctx, a) })
	waiting.Go(func() { s.lookAtStores(ctx, a) })
	waiting.Go(func() {
		steps.Await(ctx, a.catalog, nil)
		if a.catalog.Starting() != nil {
			return // the end came first
		}
		for _, f := range a.unusedSettings() {
			a.warn(f)
		}
		for _, f := range a.unusedAllowed() {
			a.warn(f)
		}
		if f := a.manyFlatTools(a.config.Access.Highest(a.use.anySurface)); f != nil {
			a.warn(f)
		}
		for changed := a.catalog.Changed(); ; changed = a.catalog.Changed() { // a source may come, or go, at any time
			if f := a.hiddenFunctions(); f != nil {
				a.warn(f)
			}
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
			c.note("ending: calls that are running have up to %v; interrupt again to stop now", transport.DefaultGrace)
		case <-done:
		}
	})
	return func() {
		close(done)
		waiting.Wait()
	}
}
