package diskstore_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/diskstore"
	"github.com/onecall-mcp/onecall/fault"
)

func TestUnusableFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "file", "")
	shared := filepath.Join(dir, "shared")
	check(t, os.Mkdir(shared, 0o700))
	check(t, os.Chmod(shared, 0o777))
	for _, path := range []string{filepath.Join(dir, "file"), filepath.Join(dir, "file", "below"), shared, "\x00"} {
		if _, err := diskstore.Open(path, nil); fault.CodeOf(err) != fault.Unavailable {
			t.Errorf("Open(%q): %v, want unavailable", path, err)
		}
	}
	if _, err := diskstore.Open(dir, &diskstore.Options{MaxBytes: -2}); fault.CodeOf(err) != fault.BadRequest {
		t.Errorf("Open with a negative bound: %v, want bad_request", err)
	}
}

// A cache folder that was removed is created again.
func TestFolderRemoved(t *testing.T) {
	t.Parallel()
	dir, c := filepath.Join(t.TempDir(), "results"), newClock()
	s := open(t, dir, c.options())
	put(t, s, "before", c.entry("1"))
	check(t, os.RemoveAll(dir))
	if has(t, s, "before") {
		t.Error("a result exists without its folder")
	}
	put(t, s, "after", c.entry("2"))
	if !has(t, s, "after") {
		t.Error("a stored result is missing")
	}
}

// An error of the system is an error of the store, not ErrNotFound.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	dir, c := filepath.Join(t.TempDir(), "results"), newClock()
	s := open(t, dir, c.options())
	check(t, os.RemoveAll(dir))
	check(t, os.WriteFile(dir, nil, 0o600))
	if err := s.Put(t.Context(), "k", c.entry("1")); err == nil {
		t.Error("Put into a file instead of a folder succeeded")
	}
	if _, err := s.Get(t.Context(), "k", nil); err == nil || errors.Is(err, budget.ErrNotFound) {
		t.Errorf("Get: %v, want the system's error", err)
	}
}
