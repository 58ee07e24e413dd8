// Package cli is the command line of onecall: its verbs, their flags, what they print, and exit statuses.
//
// The answer goes to stdout and nothing else does; faults, warnings and progress go to stderr. The exit status tells the
// kind of failure (see exit.go).
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

	"github.com/onecall-mcp/onecall/internal/app"
)

// Execute carries out one command line and returns its exit status. The first interrupt cancels what runs and lets the
// answer be written, the second ends the process at once.
func Execute(args []string, in, out, err *os.File) int {
	ctx, stop := interruptible(context.Background())
	defer stop()

	s := newStreams(in, out, err)
	(&cli{streams: s}).newLog(&serveFlags{}).SetDefault()
	root := newRoot(s)
	root.SetArgs(args)
	cmd, failed := root.ExecuteContextC(ctx)
	if failed == nil {
		failed = s.unhelped
	}
	status := s.exitStatus(failed)
	if by := new(interrupted); errors.As(context.Cause(ctx), by) && !by.ends(cmd) {
		return exitInterrupted
	}
	return status
}

// interrupted is the cause of a context that a signal has ended.
type interrupted struct{ os.Signal }

func (i interrupted) Error() string { return "interrupted: " + i.String() }

// ends reports whether the signal is the normal end of a command: a service manager that terminates a server takes any status but 0
// for a failure.
func (i interrupted) ends(cmd *cobra.Command) bool {
	return i.Signal == syscall.SIGTERM && cmd.Annotations[isService] != ""
}

// isService marks a command that runs until it is interrupted.
const isService = "service"

// interruptible returns a context that ends at the first interrupt, or at stop. After that, signals have their default effect.
func interruptible(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case by := <-signals:
			signal.Stop(signals)
			cancel(interrupted{by})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// streams are what a command reads from and writes to.
type streams struct {
	in       io.Reader
	out, err io.Writer

	inTerminal  bool       // in is a terminal
	outTerminal bool       // out is a terminal
	colors      bool       // that shows colors: https://no-color.org
	errTerminal bool       // err is a terminal
	plain       bool       // terminals obey no sequences that move the cursor and clear lines
	outWidth    func() int // the width of out in columns
	errWidth    func() int // that of err
	asJSON      bool       // whoever reads the answer is a program, whatever out is
	raw         bool       // the answer is the result alone, a text as it is

	starting func() string // the sources that are; nil: nothing was opened

	redactor app.Redactor // of all that is logged
	unhelped error        // why there was no help
}

func newStreams(in, out, err *os.File) *streams {
	name := os.Getenv("TERM")
	return &streams{in: in, out: out, err: err,
		inTerminal:  term.IsTerminal(int(in.Fd())),
		outTerminal: term.IsTerminal(int(out.Fd())),
		errTerminal: term.IsTerminal(int(err.Fd())),
		plain:       name == "dumb" || name == "" && runtime.GOOS != "windows", // which sets none
		colors:      term.IsTerminal(int(out.Fd())) && os.Getenv("NO_COLOR") == "" && name != "" && name != "dumb",
		outWidth:    func() int { return widthOf(out) },
		errWidth:    func() int { return widthOf(err) },
	}
}

func widthOf(f *os.File) int {
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
		return width
	}
	return defaultWidth
}

// defaultWidth is the width of a terminal that does not tell, and of lines of source in files and pipes.
const defaultWidth = 100

// configVariable names the configuration for programs that cannot pass the flag.
const configVariable = "ONECALL_CONFIG"

// cli is what all verbs share.
type cli struct {
	*streams
	configPath string
	verbose    bool
	explain    bool // steps are shown as they end
}

// Commands returns the tree of commands, for what is written about them: manual pages and completions.
func Commands() *cobra.Command {
	return newRoot(newStreams(os.Stdin, os.Stdout, os.Stderr))
}

func newRoot(s *streams) *cobra.Command {
	c := &cli{streams: s}
	root := &cobra.Command{
		Use:   "onecall",
		Short: "Run a whole pipeline of tool calls as one call",
		Long: "onecall runs chains: JSON objects with an array of steps, whose references carry results from step to step, under a token\n" +
			"budget that the answer never passes.",
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
		newRunsCommand(c), newResumeCommand(c), newUndoCommand(c), newApproveCommand(c), newStatsCommand(c), newDiffCommand(c), newBenchCommand(c),
		newListCommand(c), newNewCommand(c), newSaveCommand(c), newInitCommand(c), newDoctorCommand(c), newHookCommand(c), newAuthCommand(c), newSchemaCommand(c), newVersionCommand(c))
	explain(root)
	return root
}
