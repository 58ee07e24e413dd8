// Package clitest starts the command line in separate processes. They execute the test binary, so no test has to build the program.
package clitest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// AsCommand is the environment variable that makes the test binary run as the command.
const AsCommand = "ONECALL_TEST_AS_COMMAND"

// NoRaceDelay is a value of GORACE without the second that a process with the race detector waits before it exits.
const NoRaceDelay = "atexit_sleep_ms=0"

// TooLong is a limit against hangs. A correct test stays far below it, even on a busy machine.
const TooLong = 2 * time.Minute

// Command returns a command line in the folder dir, which is also its home. It is killed after TooLong.
func Command(t testing.TB, dir string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), TooLong)
	t.Cleanup(cancel)
	return commandWithin(ctx, t, dir, args...)
}

// Self is Command without the time limit.
func Self(t testing.TB, dir string, args ...string) *exec.Cmd {
	t.Helper()
	return commandWithin(context.Background(), t, dir, args...)
}

func commandWithin(ctx context.Context, t testing.TB, dir string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), AsCommand+"=1", "GORACE="+NoRaceDelay, "HOME="+dir,
		"XDG_CACHE_HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_STATE_HOME=")
	return cmd
}

// Write writes a file to dir and returns its path.
func Write(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ExitCode returns the exit status in the error of a process: "0" for nil, the error's text if it is another error.
func ExitCode(err error) string {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "0"
	case errors.As(err, &exit):
		return strconv.Itoa(exit.ExitCode())
	}
	return err.Error()
}
