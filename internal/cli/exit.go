package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/config"
)

// The exit statuses of commands. An answer has the status of its error's code (fault.Code.Exit), which may also be 3, for a chain that does
// not compile, or 5, for a source that could not be reached.
const (
	exitOK            = 0
	exitFailed        = 1 // the chain failed, or its answer could not be written
	exitUsage         = 2
	exitConfiguration = 4
	exitInterrupted   = 130 // except for a server that was terminated, which is its normal end
)

// exitError is the error of a command whose answer already says what is wrong. Only the exit status is left to set.
type exitError int

func (a exitError) Error() string { return fmt.Sprintf("exit status %d", int(a)) }

// exitErrorOf returns the error of a written answer; nil if the answer is ok.
func exitErrorOf(a *chain.Answer) error {
	switch {
	case a.OK:
		return nil
	case a.Error == nil:
		return exitError(exitFailed)
	case len(a.Faults) > 0 && !slices.ContainsFunc(a.Faults, func(f *fault.Error) bool { return f.Code != fault.Unavailable }):
		return exitError(fault.Unavailable.Exit()) // the chain may be correct: its sources are unavailable
	}
	return exitError(a.Error.Code.Exit())
}

// usageErrorf returns an error of the command line. Flags and arguments that cobra refuses are such errors too.
func usageErrorf(format string, args ...any) error {
	return fault.New(fault.BadRequest, format, args...)
}

// opErrorf returns an error of an operation, whose command line may be correct. Its exit status is exitUsage all the same.
func opErrorf(format string, args ...any) error { return opError{usageErrorf(format, args...)} }

// opError wraps an error that is not about the command line. It is shown without the advice to read the help.
type opError struct{ error }

func (m opError) Unwrap() error { return m.error }

// exitErrorOfFiles wraps an error of finding, reading or running chain files, so that it gets the right exit status.
func exitErrorOfFiles(err error) error {
	_, coded := fault.As(err)
	switch {
	case errors.As(err, new(app.Failure)):
		return err
	case coded:
		return opError{err}
	case errors.Is(err, context.Canceled):
		return exitError(exitInterrupted)
	}
	return app.Failure{Err: err}
}

// exitStatus returns the exit status of a command. It shows the error, unless an answer has shown it.
func (s *streams) exitStatus(err error) int {
	var done exitError
	var config *config.Error
	var failed app.Failure
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &config):
		s.showConfigurationFaults(config)
		return exitConfiguration
	case errors.As(err, &failed):
		s.noticef("onecall: %v", failed)
	}
	switch {
	case errors.As(err, &done):
		return int(done)
	case failed.Err != nil:
		return exitFailed
	}
	message := fault.Message(err)
	s.noticef("onecall: %s", message)
	if _, coded := fault.As(err); !coded { // a refusal of cobra's, which does not say what to do
		s.noticef("See onecall --help, or --help after a command.")
	}
	return exitUsage
}
