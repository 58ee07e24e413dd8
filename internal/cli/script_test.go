package cli

import (
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/tidwall/gjson"
)

// asCommand in the environment makes the test binary the command itself.
const asCommand = "ONECALL_TEST_AS_COMMAND"

// noRaceDelay takes back the second that a process with the race detector waits before it ends.
const noRaceDelay = "atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		onecall()
	}
	// These tests wait for other processes most of the time: as many at once as there are processors would leave them idle.
	if err := flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0))); err != nil { // -parallel on the command line counts
		panic(err)
	}
	testscript.Main(m, map[string]func(){"onecall": onecall})
}

// TestScripts runs the transcripts of the command line. Each has a home and a cache of its own.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "../../testdata/cli",
		UpdateScripts:       os.Getenv("UPDATE") != "",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("XDG_CACHE_HOME", filepath.Join(e.WorkDir, ".cache"))
			e.Setenv("XDG_CONFIG_HOME", filepath.Join(e.WorkDir, ".config"))
			e.Setenv("GORACE", noRaceDelay)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": status, "token": token, "runid": runID},
	})
}

// status CODE COMMAND...: the command ends with exactly that exit status.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status code command...")
	}
	err := ts.Exec(args[1], args[2:]...)
	if got := exitCodeOf(err); got != args[0] {
		ts.Fatalf("exit status %s, want %s", got, args[0])
	}
}

// token NAME FILE: sets a variable to the continuation token in a file.
func token(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: token name file")
	}
	found := tokenPattern.FindString(ts.ReadFile(args[1]))
	if found == "" {
		ts.Fatalf("no continuation token in %s", args[1])
	}
	ts.Setenv(args[0], found)
}

// runID NAME FILE: sets a variable to the id of the first run that runs --json has written.
func runID(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: runid name file")
	}
	id := gjson.Get(ts.ReadFile(args[1]), "runs.0.id").Str
	if id == "" {
		ts.Fatalf("no run in %s", args[1])
	}
	ts.Setenv(args[0], id)
}

// onecall is what cmd/onecall is.
func onecall() { os.Exit(Execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
