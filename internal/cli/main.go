// Package cli is the command line of onecall: its commands, flags, output and exit statuses.
//
// Only the answer goes to stdout; faults, warnings and progress go to stderr. The exit status tells the kind of failure (see
// exit.go).
package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/durable"
)

// Execute runs one command line and returns its exit status. The first interrupt cancels the command and lets it write its answer;
// the second ends the process at once.
func Execute(args []string, in, out, err *os.File) int { return ExecuteWith(nil, args, in, out, err) }

// ExecuteWith is Execute for a program with an engine for durable runs. engines opens the engine; nil: the program has none.
func ExecuteWith(engines durable.Open, args []string, in, out, err *os.File) int {
	ctx, stop := interruptible(context.Background())
	defer stop()

	s := newStreams(in, out, err)
	(&cli{streams: s}).newLog(&serveFlags{}).SetDefault() // until serve starts its own, the log is text on stderr
	root := newRoot(s, engines)
	root.SetArgs(args)
	cmd, failed := root.ExecuteContextC(ctx)
	if failed == nil {
		failed = s.helpError
	}
	status := s.exitStatus(failed)
	if by := new(interruptError); errors.As(context.Cause(ctx), by) && !by.endsNormally(cmd) {
		return exitInterrupted
	}
	return status
}

// interruptError is the cause of a context that a signal canceled.
type interruptError struct{ os.Signal }

func (i interruptError) Error() string { return "interrupted: " + i.String() }

// Unwrap returns the fault that an interrupted chain answers.
func (i interruptError) Unwrap() error { return fault.New(fault.Cancelled, "interrupted") }

// endsNormally reports whether the signal is the normal end of a command. A service manager terminates a server, and takes any status
// but 0 as a failure.
func (i interruptError) endsNormally(cmd *cobra.Command) bool {
	return i.Signal == syscall.SIGTERM && cmd.Annotations[isService] != ""
}

// isService marks a command that runs until it is interrupted.
const isService = "service"

// interruptible returns a context that is canceled at the first interrupt, or at stop. After that, signals have their default effect.
func interruptible(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case by := <-signals:
			signal.Stop(signals)
			cancel(interruptError{by})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// streams are the input and outputs of a command.
type streams struct {
	in       io.Reader
	out, err io.Writer

	inTerminal  bool        // in is a terminal
	outTerminal bool        // out is a terminal
	colors      bool        // out shows colors: https://no-color.org
	errTerminal bool        // err is a terminal
	plain       bool        // terminals obey no escape sequences
	status      *statusLine // writes to err; nil: err shows no line of progress
	outWidth    func() int  // width of out in columns
	errWidth    func() int  // width of err in columns
	asJSON      bool        // a program reads the answer, even from a terminal
	raw         bool        // only the result is written, and a string without its quotes

	startingSources func() string // names of sources that are starting; nil: no sources were opened

	redactor  app.Redactor // removes secrets from everything that is logged
	helpError error        // why help, which itself returns no error, failed
}

func newStreams(in, out, err *os.File) *streams {
	name := os.Getenv("TERM")
	s := &streams{in: in, out: out, err: err,
		inTerminal:  term.IsTerminal(int(in.Fd())),
		outTerminal: term.IsTerminal(int(out.Fd())),
		errTerminal: term.IsTerminal(int(err.Fd())),
		plain:       name == "dumb" || name == "" && runtime.GOOS != "windows", // Windows sets no TERM
		colors:      term.IsTerminal(int(out.Fd())) && os.Getenv("NO_COLOR") == "" && name != "" && name != "dumb",
		outWidth:    func() int { return widthOf(out) },
		errWidth:    func() int { return widthOf(err) },
	}
	if s.errTerminal && !s.plain {
		s.status = &statusLine{w: err}
		s.err = s.status
	}
	return s
}

func widthOf(f *os.File) int {
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
		return width
	}
	return defaultWidth
}

// defaultWidth is the width of a terminal of unknown width, and of source lines in files and pipes.
const defaultWidth = 100

// configVariable names the configuration for programs that cannot pass a flag.
const configVariable = "ONECALL_CONFIG"

// cli is what all commands share.
type cli struct {
	*streams
	configPath string
	verbose    bool
	explain    bool         // show steps when they end
	engines    durable.Open // opens the engine for durable runs; nil: this program has none
	engineURL  string       // the value of --engine
}

// Commands returns the tree of commands, for manual pages and completions. engines is nil for a program without an engine.
func Commands(engines durable.Open) *cobra.Command {
	return newRoot(newStreams(os.Stdin, os.Stdout, os.Stderr), engines)
}

func newRoot(s *streams, engines durable.Open) *cobra.Command {
	c := &cli{streams: s, engines: engines}
	root := &cobra.Command{
		Use:   "onecall",
		Short: "Run a whole pipeline of tool calls as one call",
		Long: "onecall runs chains: JSON objects with an array of steps. References carry results from step to step, and the answer never\n" +
			"exceeds its token budget.",
		Version:           version(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetVersionTemplate(versionLine())
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.PersistentFlags().BoolVar(&c.verbose, "verbose", false, "show what servers log, on stderr")
	root.PersistentFlags().StringVar(&c.configPath, "config", os.Getenv(configVariable),
		"configuration `file` (default: $"+configVariable+", else onecall.yaml or onecall.json here, else in the user's configuration folder)")
	root.AddCommand(newRunCommand(c), newCheckCommand(c), newFetchCommand(c), newToolsCommand(c), newCallCommand(c), newServeCommand(c),
		newRunsCommand(c), newResumeCommand(c), newUndoCommand(c), newApproveCommand(c), newStatsCommand(c), newDiffCommand(c),
		newBenchCommand(c), newListCommand(c), newNewCommand(c), newSaveCommand(c), newInitCommand(c), newDoctorCommand(c),
		newHookCommand(c), newAuthCommand(c), newSchemaCommand(c), newVersionCommand(c))
	if engines != nil {
		root.AddCommand(newWorkerCommand(c))
	}
	addUsage(root)
	return root
}
