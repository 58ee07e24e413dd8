package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/config"
)

// The exit statuses. That of an answer follows from its error's code (fault.Code.Exit), which also gives 3 for a chain
// that does not compile and 5 for a source that could not be reached.
const (
	exitOK            = 0
	exitFailed        = 1 // the chain failed, or its answer could not be written
	exitUsage         = 2
	exitConfiguration = 4
	exitInterrupted   = 130 // but for a server that was terminated, which ends as it should
)

// answered is the error of a command whose answer is written and says what is wrong. Only the exit status is left.
type answered int

func (a answered) Error() string { return fmt.Sprintf("exit status %d", int(a)) }

// statusOf makes the error of a written answer: nil when it is ok.
func statusOf(a *chain.Answer) error {
	switch {
	case a.OK:
		return nil
	case a.Error == nil:
		return answered(exitFailed)
	case len(a.Faults) > 0 && !slices.ContainsFunc(a.Faults, func(f *fault.Error) bool { return f.Code != fault.Unavailable }):
		return answered(fault.Unavailable.Exit()) // the chain may be right: its sources are not there
	}
	return answered(a.Error.Code.Exit())
}

// usage makes an error of how the command was called. Flags and arguments that cobra refuses are such errors as well.
func usage(format string, args ...any) error { return fault.New(fault.BadRequest, format, args...) }

// unable makes an error of what a command met with, where how it was called may be right: the status is that of wrong use.
func unable(format string, args ...any) error { return met{usage(format, args...)} }

type met struct{ error }

func (m met) Unwrap() error { return m.error }

// statusOfFiles makes an error of finding, reading or running chain files one that has an exit status.
func statusOfFiles(err error) error {
	_, coded := fault.As(err)
	switch {
	case errors.As(err, new(app.Failure)):
		return err
	case coded:
		return met{err}
	case errors.Is(err, context.Canceled):
		return answered(exitInterrupted)
	}
	return app.Failure{Err: err}
}

// exitStatus returns the exit status. It shows what is wrong unless an answer has shown it.
func (s *streams) exitStatus(err error) int {
	var done answered
	var config *config.Error
	var failed app.Failure
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &config):
		s.showFaults(&source{name: config.File, text: config.Text}, config.Faults)
		return exitConfiguration
	case errors.As(err, &failed):
		s.note("onecall: %v", failed)
	}
	switch {
	case errors.As(err, &done):
		return int(done)
	case failed.Err != nil:
		return exitFailed
	}
	message := fault.Message(err)
	s.note("onecall: %s", message)
	if f, coded := fault.As(err); !errors.As(err, new(met)) && (!coded || f.Code == fault.BadRequest) && !strings.Contains(message, "\nusage: ") {
		s.note("See onecall --help, or --help after a command.")
	}
	return exitUsage
}
