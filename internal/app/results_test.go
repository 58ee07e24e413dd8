package app

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
)

// TestSharedStore: apps with the same store share it, and the last one closes it.
func TestSharedStore(t *testing.T) {
	t.Parallel()
	p := processOf(Options{}, serverTraits{})
	open := func(store string) *App {
		a := &App{process: p}
		if err := a.openResults(&config.Config{Results: config.Results{Store: &store}}, ""); err != nil {
			t.Fatal(err)
		}
		return a
	}
	one, two, other := open("memory"), open("memory"), open("disk")
	if one.store != two.store || one.store == other.store {
		t.Fatal("want one store for two apps in memory, and another on disk")
	}
	token, _, err := one.results.Keep(t.Context(), "me", []byte("1"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a second close must not release the store for the other app
		if err := one.close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := two.results.Value(t.Context(), "me", token); err != nil {
		t.Errorf("the second app cannot read a value of the first: %v", err)
	}
	_ = two.close()
	if _, _, err := two.results.Value(t.Context(), "me", token); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("after the last close: %v, want %s", err, fault.Unavailable)
	}
	_ = other.close()
}

// TestLazyDisk: a store on disk creates no folder until its first use, and keeps the limit that was set before that.
func TestLazyDisk(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", folder)
	t.Setenv("HOME", folder)
	store, err := openStore("disk", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.SetMaxBytes(2000); err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	exists := func() bool {
		_, err := os.Stat(filepath.Join(cache, "onecall"))
		return err == nil
	}
	if exists() {
		t.Error("the folder exists before the first use")
	}
	now := time.Now()
	entry := budget.Entry{Owner: "me", Created: now, Expires: now.Add(time.Hour), Value: make([]byte, 5000)}
	_, _ = rand.NewChaCha8([32]byte{1}).Read(entry.Value) // cannot be compressed
	if err := store.Put(t.Context(), "large", entry); fault.CodeOf(err) != fault.LimitExceeded {
		t.Errorf("put beyond the limit: %v, want %s", err, fault.LimitExceeded)
	}
	entry.Value = []byte("1")
	if err := store.Put(t.Context(), "small", entry); err != nil || !exists() {
		t.Errorf("put within the limit: got error %v, folder exists: %t, want no error and a folder", err, exists())
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := store.Put(t.Context(), "late", entry); !errors.Is(err, budget.ErrClosed) {
		t.Errorf("put after close: %v, want %v", err, budget.ErrClosed)
	}
}
