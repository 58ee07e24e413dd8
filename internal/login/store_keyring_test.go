package login

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

func TestHangingKeyring(t *testing.T) {
	t.Parallel()
	keyring := &memoryKeyring{hang: make(chan struct{})}
	s := newKeyring(keyring, "onecall", t.TempDir())
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := s.Get(ctx, "key")
		wantError(t, nil, err, fault.Timeout, "does not answer")
		cancel()
	}
	close(keyring.hang)
	if err := checkStore(t.Context(), s); err != nil {
		t.Error(err)
	}
}

// The choice is made once, by the first login, and does not change when the keyring does.
func TestAutoKeepsChoice(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "logins")
	keyring := &memoryKeyring{}
	s := newAuto(keyring, folder)
	if got, err := s.Get(t.Context(), "key"); err != nil || got != nil {
		t.Errorf("Get before any Set: got %q, %v, want nil", got, err)
	}
	if _, err := os.Stat(folder); err == nil {
		t.Error("Get created the folder")
	}
	if err := s.Set(t.Context(), "key", []byte("value")); err != nil || s.Kind() != "keyring" || keyring.size() != 1 {
		t.Fatalf("got %v, store %s, %d entries, want keyring with 1 entry", err, s.Kind(), keyring.size())
	}
	keyring.err = fmt.Errorf("locked")
	again := newAuto(keyring, folder)
	_, err := again.Get(t.Context(), "key")
	wantError(t, nil, err, fault.Unavailable, "locked")
	wantError(t, nil, again.Set(t.Context(), "key", []byte("other")), fault.Unavailable, "locked")

	_ = os.WriteFile(filepath.Join(folder, "store"), []byte("cloud"), 0o600)
	_, err = again.Get(t.Context(), "key")
	wantError(t, nil, err, fault.Denied, "keyring or file")

	_ = os.Remove(filepath.Join(folder, "store"))
	if err := again.Set(t.Context(), "key", []byte("other")); err != nil || again.Kind() != "file" {
		t.Errorf("Set after the removal of the choice: got %v, store %s, want file", err, again.Kind())
	}
	keyring.err = nil
	if got, err := newAuto(keyring, folder).Get(t.Context(), "key"); err != nil || string(got) != "other" {
		t.Errorf("Get: got %q, %v, want other", got, err)
	}
}

// TestValueTooLongForKeyring: a login that the keyring cannot hold is kept in the file, for as long as it is too long.
func TestValueTooLongForKeyring(t *testing.T) {
	t.Parallel()
	long := bytes.Repeat([]byte("a"), 3000)
	keyring := &memoryKeyring{maximum: 2560}
	folder := filepath.Join(t.TempDir(), "logins")
	s := newAuto(keyring, folder)
	for _, value := range [][]byte{long, []byte("short"), long} {
		if err := s.Set(t.Context(), "key", value); err != nil || s.Kind() != "keyring" {
			t.Fatalf("Set: got %v, store %s, want keyring", err, s.Kind())
		}
		if got, err := newAuto(keyring, folder).Get(t.Context(), "key"); err != nil || !bytes.Equal(got, value) {
			t.Errorf("Get: got %d bytes, %v, want the %d written ones", len(got), err, len(value))
		}
	}
	if keyring.size() != 0 {
		t.Errorf("%d entries are left in the keyring, want 0", keyring.size())
	}
	if err := s.Delete(t.Context(), "key"); err != nil {
		t.Error(err)
	}
	if got, err := s.Get(t.Context(), "key"); err != nil || got != nil {
		t.Errorf("get after delete: %d bytes, %v, want none", len(got), err)
	}
}
