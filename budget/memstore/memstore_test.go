package memstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/memstore"
	"github.com/onecall-mcp/onecall/budget/storetest"
	"github.com/onecall-mcp/onecall/fault"
)

func open(t *testing.T, o *memstore.Options) *memstore.Store {
	t.Helper()
	s, err := memstore.New(o)
	must(t, err)
	return s
}

func entry(size int) budget.Entry {
	now := time.Now()
	return budget.Entry{Created: now, Expires: now.Add(5 * time.Minute), Value: []byte(strings.Repeat("1", size))}
}

func TestDriver(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) budget.Driver { return open(t, nil) })
}

func TestValueIsNotCopied(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	defer s.Close()
	e := entry(10)
	must(t, s.Put(t.Context(), "k", e))
	if got, err := s.Get(t.Context(), "k", nil); err != nil || &got.Value[0] != &e.Value[0] {
		t.Errorf("Get: %v, want the stored value, not a copy", err)
	}
}

// A result that was just stored exists, however full the store is: the least recently used results are removed.
func TestEvictLeastRecentlyUsed(t *testing.T) {
	t.Parallel()
	s := open(t, &memstore.Options{MaxBytes: 10_000})
	defer s.Close()
	has := func(key string) bool {
		_, err := s.Get(t.Context(), key, nil)
		return err == nil
	}
	for i := range 100 {
		size := 1000
		if i%7 == 0 {
			size = 3000
		}
		key := fmt.Sprint(i)
		must(t, s.Put(t.Context(), key, entry(size)))
		if !has(key) {
			t.Fatalf("result %d was evicted at once", i)
		}
		if !has("0") {
			t.Fatalf("the most recently used result was evicted for result %d", i)
		}
	}
	if has("1") {
		t.Error("the least recently used result was not evicted")
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	s := open(t, &memstore.Options{MaxBytes: 10_000})
	defer s.Close()
	must(t, s.Put(t.Context(), "small", entry(100)))
	if err := s.Put(t.Context(), "large", entry(10_001)); fault.CodeOf(err) != fault.LimitExceeded {
		t.Errorf("Put of a value larger than the store: %v, want limit_exceeded", err)
	}
	if _, err := s.Get(t.Context(), "small", nil); err != nil {
		t.Errorf("Get of a result stored before a refused one: %v", err)
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil)
		defer s.Close()
		must(t, s.Put(t.Context(), "k", entry(10)))
		time.Sleep(5*time.Minute - 1)
		if _, err := s.Get(t.Context(), "k", nil); err != nil {
			t.Errorf("Get just before expiry: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if _, err := s.Get(t.Context(), "k", nil); !errors.Is(err, budget.ErrNotFound) {
			t.Errorf("Get at expiry: %v, want ErrNotFound", err)
		}
	})
}

func TestOptions(t *testing.T) {
	t.Parallel()
	if _, err := memstore.New(&memstore.Options{MaxBytes: -2}); fault.CodeOf(err) != fault.BadRequest {
		t.Errorf("New with a negative bound: %v, want bad_request", err)
	}
	s := open(t, &memstore.Options{MaxBytes: -1})
	defer s.Close()
	if err := s.Put(t.Context(), "k", entry(1<<20)); err != nil {
		t.Errorf("Put without a bound: %v", err)
	}
}

// must fails a test whose setup failed.
func must(t interface {
	Helper()
	Fatal(args ...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
