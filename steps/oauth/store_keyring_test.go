package oauth

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

func TestKeyringIsStuck(t *testing.T) {
	t.Parallel()
	ring := &mapRing{hang: make(chan struct{})}
	s := newKeyring(ring, "onecall", t.TempDir())
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := s.Get(ctx, "key")
		want(t, nil, err, fault.Timeout, "does not answer")
		cancel()
	}
	close(ring.hang)
	if err := checkStore(t.Context(), s); err != nil {
		t.Error(err)
	}
}

// A long value that could not be written whole leaves the one before it in place.
func TestKeyringKeepsTheOld(t *testing.T) {
	t.Parallel()
	ring := &mapRing{}
	s := newKeyring(ring, "onecall", t.TempDir())
	before := bytes.Repeat([]byte("a"), 3*pieceSize)
	if err := s.Set(t.Context(), "key", before); err != nil {
		t.Fatal(err)
	}
	entries := ring.size()
	for _, end := range []string{".2", "key"} {
		ring.failing = func(key string) bool { return strings.HasSuffix(key, end) }
		want(t, nil, s.Set(t.Context(), "key", bytes.Repeat([]byte("b"), 3*pieceSize)), fault.Unavailable, "keyring")
		if got, err := s.Get(t.Context(), "key"); err != nil || !bytes.Equal(got, before) {
			t.Errorf("after a write that failed: %d bytes, %v", len(got), err)
		}
		if ring.size() != entries {
			t.Errorf("%d entries, want %d", ring.size(), entries)
		}
	}
	ring.failing = nil
	for key := range ring.entries {
		if strings.HasSuffix(key, ".1") {
			ring.entries[key] = "cut"
		}
	}
	_, err := s.Get(t.Context(), "key")
	want(t, nil, err, fault.Unavailable, "log in again")
}

// A value that another process replaces in the middle of a read is read again.
func TestKeyringReadsAgain(t *testing.T) {
	t.Parallel()
	ring := &mapRing{}
	folder := t.TempDir()
	s := newKeyring(ring, "onecall", folder)
	if err := s.Set(t.Context(), "key", bytes.Repeat([]byte("a"), 3*pieceSize)); err != nil {
		t.Fatal(err)
	}
	after := bytes.Repeat([]byte("b"), 2*pieceSize)
	ring.reading = func(key string) {
		if strings.HasSuffix(key, ".1") {
			ring.reading = nil
			if err := newKeyring(ring, "onecall", folder).Set(t.Context(), "key", after); err != nil {
				t.Error(err)
			}
		}
	}
	if got, err := s.Get(t.Context(), "key"); err != nil || !bytes.Equal(got, after) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// The choice is made once, by the first login, and does not change when the keyring does.
func TestAutoStays(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "logins")
	ring := &mapRing{}
	s := newAuto(ring, folder)
	if got, err := s.Get(t.Context(), "key"); err != nil || got != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := os.Stat(folder); err == nil {
		t.Error("reading made the folder")
	}
	if err := s.Set(t.Context(), "key", []byte("value")); err != nil || s.Kind() != "keyring" || ring.size() != 1 {
		t.Fatalf("%v, %s, %d entries", err, s.Kind(), ring.size())
	}
	ring.err = fmt.Errorf("locked")
	again := newAuto(ring, folder)
	_, err := again.Get(t.Context(), "key")
	want(t, nil, err, fault.Unavailable, "locked")
	want(t, nil, again.Set(t.Context(), "key", []byte("other")), fault.Unavailable, "locked")

	_ = os.WriteFile(filepath.Join(folder, "store"), []byte("cloud"), 0o600)
	_, err = again.Get(t.Context(), "key")
	want(t, nil, err, fault.Denied, "keyring or file")

	_ = os.Remove(filepath.Join(folder, "store"))
	if err := again.Set(t.Context(), "key", []byte("other")); err != nil || again.Kind() != "file" {
		t.Errorf("%v, %s", err, again.Kind())
	}
	ring.err = nil
	if got, err := newAuto(ring, folder).Get(t.Context(), "key"); err != nil || string(got) != "other" {
		t.Errorf("%q, %v", got, err)
	}
}
