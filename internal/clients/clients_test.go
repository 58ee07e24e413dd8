package clients

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
)

func parseIn(environment map[string]string, path, text string) (*config.File, []*fault.Error) {
	return config.Parse(path, []byte(text), func(name string) (string, bool) {
		value, ok := environment[name]
		return value, ok
	})
}

func sortedKeys(m map[string]string) []string {
	var keys []string
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func TestWriteNew(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "a.yaml")
	if err := WriteNew(path, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := WriteNew(path, []byte("y")); err == nil || !os.IsExist(err) {
		t.Errorf("WriteNew of a file that exists: %v, want an exists error", err)
	}
	text, err := os.ReadFile(path)
	info, failed := os.Stat(path)
	entries, _ := os.ReadDir(folder)
	if err != nil || failed != nil || !bytes.Equal(text, []byte("x")) || info.Mode().Perm()&^fs.FileMode(0o600) != 0 || len(entries) != 1 {
		t.Errorf("got text %q, mode %v, %d files; want \"x\", at most 0600, one file", text, info.Mode(), len(entries))
	}
}
