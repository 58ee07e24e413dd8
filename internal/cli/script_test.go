package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli"
	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/internal/transcript"
)

var tokenPattern = regexp.MustCompile(`oc1_[A-Za-z0-9_-]+`)

func TestMain(m *testing.M) {
	if os.Getenv(clitest.AsCommand) != "" {
		onecall()
	}
	polltest.MoreParallel()
	testscript.Main(m, map[string]func(){"onecall": onecall})
}

// TestScripts runs the transcripts of the command line. Each has its own home, cache and configuration folder.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "../../testdata/cli",
		UpdateScripts:       transcript.Updating(),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("XDG_CACHE_HOME", filepath.Join(e.WorkDir, ".cache"))
			e.Setenv("XDG_CONFIG_HOME", filepath.Join(e.WorkDir, ".config"))
			e.Setenv("GORACE", clitest.NoRaceDelay)
			e.Values[environment{}] = e.Vars
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": status, "token": token, "runid": runID, "batch": batch,
			"dialog": dialog},
	})
}

// status CODE COMMAND... checks that the command ends with exactly that exit status.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status code command...")
	}
	err := ts.Exec(args[1], args[2:]...)
	if got := clitest.ExitCode(err); got != args[0] {
		ts.Fatalf("exit status %s, want %s", got, args[0])
	}
}

// token NAME FILE sets the variable NAME to the first continuation token in a file.
func token(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: token name file")
	}
	match := tokenPattern.FindString(ts.ReadFile(args[1]))
	if match == "" {
		ts.Fatalf("no continuation token in %s", args[1])
	}
	ts.Setenv(args[0], match)
}

// runID NAME FILE sets the variable NAME to the id of the first run in a file, which holds the output of runs --json.
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

// onecall runs the command line as cmd/onecall does, and exits.
func onecall() { os.Exit(cli.Execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
