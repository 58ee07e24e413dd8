package diskstore_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/diskstore"
	"github.com/onecall-mcp/onecall/budget/storetest"
	"github.com/onecall-mcp/onecall/fault"
)

// clock is a clock that tests set.
type clock struct{ now time.Time }

func (c *clock) options() *diskstore.Options {
	return &diskstore.Options{Now: func() time.Time { return c.now }}
}

func newClock() *clock { return &clock{time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)} }

func (c *clock) entry(value string) budget.Entry {
	return budget.Entry{Owner: "o", Created: c.now, Expires: c.now.Add(5 * time.Minute), Value: []byte(value)}
}

func open(t *testing.T, dir string, o *diskstore.Options) *diskstore.Store {
	t.Helper()
	s, err := diskstore.Open(dir, o)
	check(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func put(t *testing.T, s *diskstore.Store, key string, e budget.Entry) {
	t.Helper()
	if err := s.Put(t.Context(), key, e); err != nil {
		t.Fatalf("Put(%s): %v", key, err)
	}
}

func has(t *testing.T, s *diskstore.Store, key string) bool {
	t.Helper()
	_, err := s.Get(t.Context(), key, nil)
	if err != nil && !errors.Is(err, budget.ErrNotFound) {
		t.Fatalf("Get(%s): %v", key, err)
	}
	return err == nil
}

// names returns the names of the files in a folder.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestDriver(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) budget.Driver { return open(t, t.TempDir(), nil) })
}

func TestAnotherProcess(t *testing.T) {
	t.Parallel()
	dir, c := t.TempDir(), newClock()
	first := open(t, dir, c.options())
	put(t, first, "k", c.entry(`{"a":1}`))
	check(t, first.Close())
	second := open(t, dir, c.options())
	if e, err := second.Get(t.Context(), "k", nil); err != nil || string(e.Value) != `{"a":1}` || e.Owner != "o" {
		t.Errorf(`Get after reopening the folder: %q of %q, %v; want {"a":1} of o`, e.Value, e.Owner, err)
	}
	third := open(t, dir, c.options())
	check(t, third.Touch(t.Context(), "k", c.now.Add(time.Hour)))
	c.now = c.now.Add(30 * time.Minute)
	if !has(t, second, "k") {
		t.Error("a result that another process extended has expired")
	}
	c.now = c.now.Add(30 * time.Minute)
	if has(t, second, "k") {
		t.Error("an expired result was returned")
	}
}

func TestModes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache", "results")
	c := newClock()
	put(t, open(t, dir, c.options()), "k", c.entry("1"))
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v (%v), want 0700", info.Mode(), err)
	}
	for _, name := range names(t, dir) {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file has mode %v (%v), want 0600", info.Mode(), err)
		}
		if strings.Contains(name, "k") {
			t.Errorf("the file name %s shows the key", name)
		}
	}
}

func TestSweepAtOpen(t *testing.T) {
	t.Parallel()
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, c.options())
	put(t, s, "old", c.entry("1"))
	c.now = c.now.Add(4 * time.Minute)
	put(t, s, "young", c.entry("2"))
	foreign := []string{"notes.txt", "x.onecall", strings.Repeat("A", 64) + ".onecall"}
	for _, name := range foreign {
		write(t, dir, name, "mine")
	}
	write(t, dir, strings.Repeat("a", 64)+".onecall", "nonsense under one of our names")
	write(t, dir, "new-1.onecall", "abandoned")
	write(t, dir, "new-2.onecall", "being written")
	for name, age := range map[string]time.Duration{"new-1.onecall": 2 * time.Hour, "new-2.onecall": time.Second} {
		check(t, os.Chtimes(filepath.Join(dir, name), time.Time{}, c.now.Add(-age)))
	}
	c.now = c.now.Add(2 * time.Minute)
	s = open(t, dir, c.options())
	if has(t, s, "old") || !has(t, s, "young") {
		t.Errorf("old: %v, young: %v, want only young", has(t, s, "old"), has(t, s, "young"))
	}
	if left := names(t, dir); len(left) != 1+1+len(foreign) {
		t.Errorf("files %q, want one result, one file being written and the foreign files", left)
	}
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	check(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
}

func TestEvictOldest(t *testing.T) {
	t.Parallel()
	dir, c := t.TempDir(), newClock()
	o := c.options()
	o.MaxBytes = 20_000
	s := open(t, dir, o)
	for i := range 50 {
		c.now = c.now.Add(time.Second)
		key := fmt.Sprint(i)
		put(t, s, key, c.entry(incompressible(1000+i)))
		if !has(t, s, key) {
			t.Fatalf("result %d was evicted at once", i)
		}
		if n := diskUse(t, dir); n > o.MaxBytes {
			t.Fatalf("the folder has %d bytes, want at most %d", n, o.MaxBytes)
		}
	}
	if has(t, s, "0") || !has(t, s, "48") {
		t.Errorf("has result 0: %t, has result 48: %t; want false and true, as the oldest are evicted first", has(t, s, "0"), has(t, s, "48"))
	}
	put(t, s, "alone", c.entry(incompressible(19_000)))
	if !has(t, s, "alone") {
		t.Error("a result nearly as large as the store was not stored")
	}
	if err := s.Put(t.Context(), "too large", c.entry(incompressible(20_000))); fault.CodeOf(err) != fault.LimitExceeded {
		t.Errorf("Put of a value larger than the store: %v, want limit_exceeded", err)
	}
	if n := len(names(t, dir)); n != 1 {
		t.Errorf("%d files left, want 1", n)
	}
}

// Results that other processes add are counted within a minute.
func TestBoundAcrossProcesses(t *testing.T) {
	t.Parallel()
	dir, c := t.TempDir(), newClock()
	o := c.options()
	o.MaxBytes = 20_000
	first, second := open(t, dir, o), open(t, dir, o)
	for i := range 15 {
		c.now = c.now.Add(time.Second)
		put(t, first, fmt.Sprint("one", i), c.entry(incompressible(1000)))
		put(t, second, fmt.Sprint("other", i), c.entry(incompressible(1000)))
	}
	c.now = c.now.Add(time.Minute)
	put(t, first, "last", c.entry(incompressible(1000)))
	if n := diskUse(t, dir); n > o.MaxBytes {
		t.Errorf("the folder has %d bytes, want at most %d", n, o.MaxBytes)
	}
}

func incompressible(n int) string {
	b := make([]byte, n)
	state := uint64(n)
	for i := range b {
		state = state*6364136223846793005 + 1442695040888963407
		b[i] = byte(state >> 56)
	}
	return string(b)
}

func diskUse(t *testing.T, dir string) (n int64) {
	t.Helper()
	for _, name := range names(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		check(t, err)
		n += info.Size()
	}
	return n
}

// Each byte of a file is changed in turn, and the file is cut at each length. It then reads as before (the checksum does not cover the
// expiry) or as not found, and a sweep removes damaged files.
func TestDamage(t *testing.T) {
	t.Parallel()
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, c.options())
	const value = `{"items":[1,2,3],"name":"a name that is longer than the rest","again":"a name that is longer than the rest"}`
	put(t, s, "k", c.entry(value))
	path := filepath.Join(dir, names(t, dir)[0])
	original, err := os.ReadFile(path)
	check(t, err)
	const expiry = 8 // bytes at the beginning
	try := func(what string, content []byte) {
		check(t, os.WriteFile(path, content, 0o600))
		e, err := s.Get(t.Context(), "k", nil)
		switch {
		case err == nil && string(e.Value) != value:
			t.Errorf("%s: Get = %q, want %q", what, e.Value, value)
		case err != nil && !errors.Is(err, budget.ErrNotFound):
			t.Errorf("%s: Get: %v, want ErrNotFound", what, err)
		case err == nil && what != "expiry":
			t.Errorf("%s: Get succeeded on a damaged file", what)
		}
		if err := s.Touch(t.Context(), "k", c.now.Add(time.Hour)); err != nil && !errors.Is(err, budget.ErrNotFound) {
			t.Errorf("%s: Touch: %v, want ErrNotFound or no error", what, err)
		}
	}
	for i := range original {
		changed := append([]byte(nil), original...)
		changed[i] ^= 0xff
		if i < expiry {
			try("expiry", changed)
			continue
		}
		try(fmt.Sprintf("byte %d changed", i), changed)
		try(fmt.Sprintf("truncated to %d bytes", i), original[:i])
	}
	try("bytes after the end", append(append([]byte(nil), original...), 0))
	open(t, dir, c.options())
	if left := names(t, dir); len(left) != 0 {
		t.Errorf("the sweep left damaged files %q, want none", left)
	}
}

// A file that was moved to another name is not the result of that name.
func TestMovedFile(t *testing.T) {
	t.Parallel()
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, c.options())
	put(t, s, "a", c.entry("1"))
	a := names(t, dir)[0]
	put(t, s, "b", c.entry("2"))
	for _, name := range names(t, dir) {
		if name != a {
			check(t, os.Rename(filepath.Join(dir, a), filepath.Join(dir, name)))
		}
	}
	if has(t, s, "b") {
		t.Error("Get returned the file of another result")
	}
}

// A header that claims a larger size than the file has costs no memory.
func TestForgedSize(t *testing.T) {
	t.Parallel()
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, c.options())
	put(t, s, "k", c.entry("[1,2,3]"))
	path := filepath.Join(dir, names(t, dir)[0])
	original, err := os.ReadFile(path)
	check(t, err)
	for _, size := range []uint64{6, 8, 1 << 30, 1 << 62, 1 << 63} {
		forged := append([]byte(nil), original...)
		diskstore.Forge(forged, filepath.Base(path), func(header []byte) { binary.LittleEndian.PutUint64(header[24:], size) })
		check(t, os.WriteFile(path, forged, 0o600))
		if has(t, s, "k") {
			t.Errorf("Get read a value of 7 bytes whose header says %d, want ErrNotFound", size)
		}
	}
}

func TestCancelledPutLeavesNothing(t *testing.T) {
	t.Parallel()
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, c.options())
	ctx := &delayedCancel{Context: t.Context(), checks: 3}
	if err := s.Put(ctx, "k", c.entry(incompressible(8<<20))); !errors.Is(err, context.Canceled) {
		t.Errorf("Put: %v, want context.Canceled", err)
	}
	if left := names(t, dir); len(left) != 0 {
		t.Errorf("a cancelled Put left %q, want none", left)
	}
}

// delayedCancel is a context that ends after a number of calls of Err.
type delayedCancel struct {
	context.Context
	checks int
}

func (c *delayedCancel) Err() error {
	if c.checks--; c.checks < 0 {
		return context.Canceled
	}
	return nil
}
