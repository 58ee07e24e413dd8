package files

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// TestEntries: a folder of any size has the entries that the standard library lists, with their types, also on a file system that does not
// tell types.
func TestEntries(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for i := range 3000 { // more than one reading of the folder
		must(t, os.WriteFile(filepath.Join(folder, fmt.Sprintf("a file with a name that is rather long %d", i)), nil, 0o644))
	}
	must(t, os.Mkdir(filepath.Join(folder, "dir\nwith a line break"), 0o755))
	must(t, os.Symlink("nothing", filepath.Join(folder, "link")))
	must(t, syscall.Mkfifo(filepath.Join(folder, "fifo"), 0o644))
	listed, err := os.ReadDir(folder)
	must(t, err)
	want := map[string]string{}
	for _, e := range listed {
		want[e.Name()] = kind(e.Type())
	}
	root, err := os.OpenRoot(folder)
	must(t, err)
	defer root.Close()
	got, untold := map[string]string{}, map[string]string{}
	entries, err := newFolder(root, ".").entries()
	must(t, err)
	for _, e := range entries {
		got[e.Name()] = kind(e.Type())
		asked := entry{root: root, name: e.Name()}
		if !asked.setType(syscall.DT_UNKNOWN) {
			t.Errorf("%q counts as gone", e.Name())
		}
		untold[e.Name()] = kind(asked.Type())
	}
	if !maps.Equal(got, want) || !maps.Equal(untold, want) {
		t.Errorf("got %d entries, %d asked for, want %d, with the same types", len(got), len(untold), len(want))
	}
	if gone := (&entry{root: root, name: "nothing"}); gone.setType(syscall.DT_UNKNOWN) {
		t.Error("an entry that is gone is listed")
	}
	d, err := root.Open(".")
	must(t, err)
	defer d.Close()
	stop := fault.New(fault.LimitExceeded, "enough")
	if err := readEntries(root, d, func(fs.DirEntry) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v, want the error of add", err)
	}
}
