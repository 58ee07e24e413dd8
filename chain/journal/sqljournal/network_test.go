package sqljournal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// TestNetwork: no file is made on a network file system, and the temporary folder is not on one.
func TestNetwork(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	d, err := newDriver(&sqliteEngine{path: path, isRemote: func(string) bool { return true }}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	_, err = d.Write(t.Context(), []journal.Write{{ID: "run_a", Lease: 1, New: true, Row: &journal.Row{ID: "run_a"}}})
	if fault.CodeOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "on a network file system") {
		t.Errorf("Write: %v, want unavailable: on a network file system", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the driver created a file on a network file system: %v", err)
	}
	if onNetwork(filepath.Dir(path)) {
		t.Error("onNetwork reports the temporary folder as remote")
	}
}
