package login

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/fault"
)

// checkStore checks what every store must do.
func checkStore(ctx context.Context, s Store) error {
	long := bytes.Repeat([]byte("0123456789"), 3000)
	for _, value := range [][]byte{[]byte("{}"), long, []byte("short again")} {
		if err := s.Set(ctx, "key", value); err != nil {
			return fmt.Errorf("set %d bytes: %w", len(value), err)
		}
		if got, err := s.Get(ctx, "key"); err != nil || !bytes.Equal(got, value) {
			return fmt.Errorf("get: %d bytes of %d, %w", len(got), len(value), err)
		}
	}
	if got, err := s.Get(ctx, "other"); err != nil || got != nil {
		return fmt.Errorf("get a missing key: %q, %w", got, err)
	}
	if err := s.Set(ctx, "key", make([]byte, maxValue+1)); fault.CodeOf(err) != fault.LimitExceeded {
		return fmt.Errorf("set too long a value: %w", err)
	}
	for range 2 {
		if err := s.Delete(ctx, "key"); err != nil {
			return fmt.Errorf("delete: %w", err)
		}
	}
	if got, err := s.Get(ctx, "key"); err != nil || got != nil {
		return fmt.Errorf("get after delete: %q, %w", got, err)
	}
	unlock, err := s.Lock(ctx, "key")
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	short, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
	defer cancel()
	if _, err := s.Lock(short, "key"); fault.CodeOf(err) != fault.Timeout {
		return fmt.Errorf("lock twice: %w", err)
	}
	unlockOther, err := s.Lock(ctx, "other key")
	if err != nil {
		return fmt.Errorf("lock another: %w", err)
	}
	unlockOther()
	unlock()
	if unlock, err = s.Lock(ctx, "key"); err != nil {
		return fmt.Errorf("lock again: %w", err)
	}
	unlock()
	return nil
}

func TestStores(t *testing.T) {
	t.Parallel()
	keyring := &memoryKeyring{}
	for name, s := range map[string]Store{
		"file":    newFileStore(filepath.Join(t.TempDir(), "new", "logins.json")),
		"keyring": newKeyring(keyring, "onecall", t.TempDir()),
		"auto":    newAuto(&memoryKeyring{}, filepath.Join(t.TempDir(), "new")),
		"nothing": newAuto(&memoryKeyring{err: fmt.Errorf("no keyring")}, filepath.Join(t.TempDir(), "new")),
	} {
		if err := checkStore(t.Context(), s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := keyring.size(); n != 0 {
		t.Errorf("%d entries are left in the keyring, want 0", n)
	}
}

func newAuto(r keyringAPI, folder string) *auto {
	a := Auto(folder).(*auto)
	a.keyring = newKeyring(r, "onecall", folder)
	return a
}

// After any sequence of changes, every store holds what a map would.
func TestStoreModel(t *testing.T) {
	t.Parallel()
	keyring := &memoryKeyring{}
	stores := []Store{newFileStore(filepath.Join(t.TempDir(), "logins.json")), newKeyring(keyring, "onecall", t.TempDir())}
	rapid.Check(t, func(r *rapid.T) {
		model := map[string][]byte{}
		for _, s := range stores {
			for _, key := range []string{"a", "b"} {
				if err := s.Delete(t.Context(), key); err != nil {
					r.Fatal(err)
				}
			}
		}
		for range rapid.IntRange(1, 10).Draw(r, "changes") {
			key := rapid.SampledFrom([]string{"a", "b"}).Draw(r, "key")
			value := bytes.Repeat([]byte{byte(rapid.IntRange('a', 'z').Draw(r, "letter"))}, rapid.SampledFrom([]int{1, 2000, 3 * 2000,
				5001}).Draw(r, "length"))
			remove := rapid.Bool().Draw(r, "remove")
			delete(model, key)
			if !remove {
				model[key] = value
			}
			for _, s := range stores {
				err := s.Delete(t.Context(), key)
				if !remove {
					err = s.Set(t.Context(), key, value)
				}
				if err != nil {
					r.Fatal(err)
				}
			}
		}
		for _, s := range stores {
			for _, key := range []string{"a", "b"} {
				if got, err := s.Get(t.Context(), key); err != nil || !bytes.Equal(got, model[key]) {
					r.Fatalf("%s holds %d bytes under %s, want %d: %v", s.Kind(), len(got), key, len(model[key]), err)
				}
			}
		}
	})
}

// Concurrent writers lose nothing, and readers never see half a value.
func TestConcurrentStores(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "logins.json")
	keyring, folder := &memoryKeyring{}, t.TempDir()
	for name, open := range map[string]func() Store{
		"file":    func() Store { return newFileStore(path) },
		"keyring": func() Store { return newKeyring(keyring, "onecall", folder) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var wait sync.WaitGroup
			for i := range 6 {
				s, key := open(), fmt.Sprint("key", i)
				wait.Go(func() {
					for n := range 10 {
						value := bytes.Repeat([]byte{byte('a' + n)}, 4500)
						if err := s.Set(t.Context(), key, value); err != nil {
							t.Error(err)
						}
						if got, err := s.Get(t.Context(), key); err != nil || !bytes.Equal(got, value) {
							t.Errorf("Get: got %d bytes, %v, want the %d written ones", len(got), err, len(value))
						}
					}
				})
			}
			wait.Wait()
		})
	}
}

func TestFileIsPrivate(t *testing.T) {
	t.Parallel()
	if !hasModes {
		t.Skip("the system has no permission bits")
	}
	folder := filepath.Join(t.TempDir(), "new", "logins")
	path := filepath.Join(folder, "logins.json")
	s := newFileStore(path)
	if err := s.Set(t.Context(), "key", []byte("value")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, want 0600: %v", info.Mode(), err)
	}
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v, want 0700: %v", info.Mode(), err)
	}
	check := func(code fault.Code, message string) {
		t.Helper()
		_, get := s.Get(t.Context(), "key")
		set := s.Set(t.Context(), "key", []byte("other"))
		if code == fault.Denied && strings.Contains(message, "700") {
			get = set // reading does not check the folder
		}
		wantError(t, nil, get, code, message)
		wantError(t, nil, set, code, message)
	}
	_ = os.Chmod(path, 0o640)
	check(fault.Denied, "chmod 600 "+path)
	_ = os.Chmod(path, 0o600)
	_ = os.Chmod(folder, 0o770)
	check(fault.Denied, "chmod 700 "+folder)
	_ = os.Chmod(folder, 0o700)
	for _, content := range []string{"", "{", "[]", `{"version":2}`, `{"version":1,"logins":{"key":7}}`, strings.Repeat(" ", maxFile+1)} {
		_ = os.WriteFile(path, []byte(content), 0o600)
		check(fault.Unavailable, "move")
	}
	_ = os.WriteFile(path, []byte(`{"version":1,"logins":null}`), 0o600)
	if err := s.Set(t.Context(), "key", []byte("value")); err != nil {
		t.Error(err)
	}
	_ = os.Remove(path)
	_ = os.Mkdir(path, 0o700)
	check(fault.Denied, "regular file")
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			t.Errorf("the temporary file %s is left", e.Name())
		}
	}
}

// A login that another program stored is reported, not misread.
func TestUnknownRecord(t *testing.T) {
	t.Parallel()
	s := newLoginFixture(t)
	server, err := newServer(s.o)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "null", "[]", `{"v":2}`, `{"v":"1"}`} {
		if err := s.o.Store.Set(t.Context(), server.key(), []byte(text)); err != nil {
			t.Fatal(err)
		}
		_, err := Status(t.Context(), s.o)
		wantError(t, nil, err, fault.Denied, "another version", "onecall auth login hub")
	}
	s.login(t)
}
