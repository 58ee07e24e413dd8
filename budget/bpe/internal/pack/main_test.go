package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func unpack(t *testing.T, path string) []byte {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	unpacked, err := d.DecodeAll(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return unpacked
}

func TestPackMakesTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "packed")
	if err := pack(path); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(unpack(t, path), unpack(t, "../../o200k_base.zst")) {
		t.Error("the vocabulary is out of date: run go generate")
	}
}
