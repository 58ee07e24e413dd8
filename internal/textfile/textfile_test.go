package textfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestRead(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "a.txt")
	if err := os.WriteFile(path, []byte("\ufeff12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := Read(path, 100); err != nil || string(WithoutMark(text)) != "12345" {
		t.Errorf("Read: got %q, %v, want 12345", text, err)
	}
	if text, err := Read(path, 4); err != nil || len(text) != 5 {
		t.Errorf("Read of a long file: %d bytes, %v, want 5", len(text), err)
	}
	if _, err := Read(folder, 4); err == nil || err.Error() != "it is a folder" {
		t.Errorf(`Read of a folder: got error %v, want "it is a folder"`, err)
	}
	_, err := Read(filepath.Join(folder, "none"), 4)
	var path2 *fs.PathError
	if !errors.Is(err, fs.ErrNotExist) || errors.As(Cause(err), &path2) {
		t.Errorf("Read of a missing file: got %v, cause %v, want not exist, and a cause without the path", err, Cause(err))
	}
}

func TestOffset(t *testing.T) {
	t.Parallel()
	for column, want := range map[int]int{0: 0, 1: 0, 2: 1, 3: 3, 4: 4, 9: 4} {
		if got := Offset("aéb", column); got != want {
			t.Errorf("Offset of column %d is %d, want %d", column, got, want)
		}
	}
}
