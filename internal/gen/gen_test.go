package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestUpToDate checks that the generated files are up to date.
func TestUpToDate(t *testing.T) {
	t.Parallel()
	const root = "../.."
	files, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s is out of date: run go generate ./...", name)
		}
	}
}
