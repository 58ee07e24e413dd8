//go:build unix

package temporal_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	sdk "go.temporal.io/sdk/worker"

	"github.com/onecall-mcp/onecall/temporal"
)

// histories is the folder of histories of batches: some of earlier versions of the workflow, and one of each kind of this version. Tests
// write those of this version if ONECALL_TEST_HISTORIES names a folder. Keep the histories of released versions, because their batches may
// be running when workers of a new version start: guard changes to the order of a workflow's commands with workflow.GetVersion.
const histories = "testdata/histories"

// TestReplay: the workflow makes the same commands from each history as when the history was written.
func TestReplay(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(histories, "*.json"))
	if err != nil || len(files) < 5 {
		t.Fatalf("got %d histories, want at least 5: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			replayer := sdk.NewWorkflowReplayer()
			temporal.Register(replayer)
			if err := replayer.ReplayWorkflowHistoryFromJSONFile(temporal.Quiet{}, file); err != nil {
				t.Error(err)
			}
		})
	}
}

// identity matches the author of an event, which names a machine.
var identity = regexp.MustCompile(`("identity": ")[^"]*`)

// record writes the history of a batch to the folder in ONECALL_TEST_HISTORIES, if the variable is set.
func (s *stack) record(t testing.TB, name, batch string) {
	t.Helper()
	folder := os.Getenv("ONECALL_TEST_HISTORIES")
	if folder == "" {
		return
	}
	text, err := s.cli("workflow", "show", "--workflow-id", "onecall-"+batch, "--output", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	text = identity.ReplaceAll(text, []byte("${1}worker"))
	if err := os.WriteFile(filepath.Join(folder, name+".json"), text, 0o644); err != nil {
		t.Fatal(err)
	}
}
