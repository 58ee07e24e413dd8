// Package cli is the command line of onecall: its commands, flags, output and exit statuses.
//
// Only the answer goes to stdout; faults, warnings and progress go to stderr. The exit status gives the kind of failure (see
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

// ExecuteWith is Execute for a program that has an engine for durable runs. engineOpener opens the engine; nil: the program has none.
func ExecuteWith(engineOpener durable.Open, args []string, in, out, err *os.File) int {
	ctx, stop := interruptible(context.Background())
	defer stop()

	s := newStreams(in, out, err)
	(&cli{streams: s}).newLog(&serveFlags{}).SetDefault() // text on stderr, until serve starts its own log
	root := newRoot(s, engineOpener)
	root.SetArgs(args)
	if s.outTerminal {
		fitHelp(root, s.outWidth())
	}
	cmd, runErr := root.ExecuteContextC(ctx)
	if runErr == nil {
		runErr = s.helpError
	}
	status := s.exitStatus(runErr)
	if interrupt := new(interruptError); errors.As(context.Cause(ctx), interrupt) && !interrupt.endsNormally(cmd) {
		return exitInterrupted
	}
	return status
}

// interruptError is the cause (context.Cause) of a context that a signal canceled.
type interruptError struct{ os.Signal }

func (i interruptError) Error() string { return "interrupted: " + i.String() }

// Unwrap returns the fault that an interrupted chain reports in its answer.
func (i interruptError) Unwrap() error { return fault.New(fault.Cancelled, "interrupted") }

// endsNormally reports whether the signal is the normal way to end the command. A service manager ends a server with SIGTERM and treats
// any exit status but 0 as a failure.
func (i interruptError) endsNormally(cmd *cobra.Command) bool {
	return i.Signal == syscall.SIGTERM && cmd.Annotations[serviceAnnotation] != ""
}

// serviceAnnotation is the annotation of a command that runs until it is interrupted.
const serviceAnnotation = "service"

// interruptible returns a context that is canceled at the first interrupt, or by stop. After that, signals have their default effect.
func interruptible(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case received := <-signals:
			signal.Stop(signals)
			cancel(interruptError{received})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// streams holds the input and outputs of a command, and how they are used.
type streams struct {
	in       io.Reader
	out, err io.Writer

	inTerminal  bool        // in is a terminal
	outTerminal bool        // out is a terminal
	colors      bool        // out shows colors (see https://no-color.org)
	errTerminal bool        // err is a terminal
	errColors   bool        // err shows colors
	plain       bool        // terminals do not interpret escape sequences
	status      *statusLine // the progress line on err; nil: none is shown
	outWidth    func() int  // width of out in columns
	errWidth    func() int  // width of err in columns
	asJSON      bool        // write the answer as JSON on one line, and never ask, even at a terminal
	raw         bool        // write only the result; a string without its quotes

	startingSources func() string           // lists the sources that are starting, "" if none is; nil: no app was opened
	estimate        func(result []byte) int // estimates tokens as an answer's trace does; nil: no app was opened

	redactor  app.Redactor // removes secrets from logs, warnings and other messages
	helpError error        // why showing help failed; a help function of cobra cannot return it
}

func newStreams(in, out, err *os.File) *streams {
	termName := os.Getenv("TERM")
	wantsColors := os.Getenv("NO_COLOR") == "" && termName != "" && termName != "dumb"
	s := &streams{in: in, out: out, err: err,
		inTerminal:  term.IsTerminal(int(in.Fd())),
		outTerminal: term.IsTerminal(int(out.Fd())),
		errTerminal: term.IsTerminal(int(err.Fd())),
		plain:       termName == "dumb" || termName == "" && runtime.GOOS != "windows", // Windows sets no TERM
		colors:      term.IsTerminal(int(out.Fd())) && wantsColors,
		errColors:   term.IsTerminal(int(err.Fd())) && wantsColors,
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

// defaultWidth is the width in columns that is assumed for files, pipes and terminals of unknown width.
const defaultWidth = 100

// configVariable is the environment variable with the default of --config, for programs that cannot pass a flag.
const configVariable = "ONECALL_CONFIG"

// cli holds what all commands share.
type cli struct {
	*streams
	configPath   string       // the value of --config
	verbose      bool         // the value of --verbose
	explain      bool         // show each step when it ends
	replays      bool         // runs are those of a replay, which are not kept
	engineOpener durable.Open // opens the engine for durable runs; nil: this program has none
	engineURL    string       // the value of --engine
}

// Commands returns the tree of commands, for the reference, manual pages and completions. engineOpener is nil for a program without an
// engine.
func Commands(engineOpener durable.Open) *cobra.Command {
	return newRoot(newStreams(os.Stdin, os.Stdout, os.Stderr), engineOpener)
}

func newRoot(s *streams, engineOpener durable.Open) *cobra.Command {
	c := &cli{streams: s, engineOpener: engineOpener}
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
	root.PersistentFlags().BoolVar(&c.verbose, "verbose", false, "show the log messages and the stderr of MCP servers")
	root.PersistentFlags().StringVar(&c.configPath, "config", os.Getenv(configVariable),
		"configuration `file` (default: $"+configVariable+", else onecall.yaml or onecall.json in the working directory, "+
			"else in the user's configuration folder)")
	root.AddCommand(newRunCommand(c), newCheckCommand(c), newFetchCommand(c), newToolsCommand(c), newCallCommand(c), newServeCommand(c),
		newRunsCommand(c), newResumeCommand(c), newUndoCommand(c), newApproveCommand(c), newStatsCommand(c), newDiffCommand(c),
		newGraphCommand(c), newConsoleCommand(c),
		newBenchCommand(c), newListCommand(c), newNewCommand(c), newSaveCommand(c), newLockCommand(c), newSignCommand(c), newVerifyCommand(c),
		newInitCommand(c), newDoctorCommand(c),
		newHookCommand(c), newAuthCommand(c), newSchemaCommand(c), newVersionCommand(c))
	if engineOpener != nil {
		root.AddCommand(newWorkerCommand(c))
	}
	addUsage(root)
	addGroups(root)
	return root
}
