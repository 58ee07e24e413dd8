// Package storetest has the tests that every driver of result stores passes.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
)

// Run tests the drivers that open returns. Every call must return a new, empty store of at least 256 MiB on the real clock; Run closes it.
// No test waits: expired entries are stored with a time in the past.
func Run(t *testing.T, open func(t *testing.T) budget.Driver) {
	tests := []struct {
		name string
		run  func(t *testing.T, d budget.Driver)
	}{
		{"round trip", roundTrip},
		{"any key", anyKey},
		{"absent", absent},
		{"replaced", replaced},
		{"expired", expired},
		{"touched", touched},
		{"deleted", deleted},
		{"changed limit", changedLimit},
		{"large value", largeValue},
		{"admitted", admitted},
		{"read by many", readByMany},
		{"read during eviction", readDuringEviction},
		{"shares", ownerShares},
		{"concurrent use", concurrentUse},
		{"concurrent use of one key", oneKey},
		{"ended contexts", endedContexts},
		{"closed", closed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			t.Cleanup(func() {
				if err := d.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
			test.run(t, d)
		})
	}
}

// now is the time of all entries, so that two with the same content are equal.
var now = time.Now()

// entry returns a live entry.
func entry(owner, value string) budget.Entry {
	return budget.Entry{Owner: owner, Created: now, Expires: now.Add(time.Hour), Value: []byte(value)}
}

func put(t *testing.T, d budget.Driver, key string, e budget.Entry) {
	t.Helper()
	if err := d.Put(t.Context(), key, e); err != nil {
		t.Fatalf("Put(%.40q): %v", key, err)
	}
}

// wantEntry checks that the store returns an entry, with times exact to the millisecond.
func wantEntry(t *testing.T, d budget.Driver, key string, want budget.Entry) {
	t.Helper()
	got, err := d.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatalf("Get(%.40q): %v", key, err)
	}
	if got.Owner != want.Owner || !bytes.Equal(got.Value, want.Value) {
		t.Errorf("Get(%.40q) = %.40q of %q, want %.40q of %q", key, got.Value, got.Owner, want.Value, want.Owner)
	}
	near := func(a, b time.Time) bool { return a.Sub(b).Abs() <= time.Millisecond }
	if !near(got.Created, want.Created) || !near(got.Expires, want.Expires) {
		t.Errorf("Get(%.40q) lives from %v to %v, want %v to %v", key, got.Created, got.Expires, want.Created, want.Expires)
	}
}

func wantAbsent(t *testing.T, d budget.Driver, key string) {
	t.Helper()
	if e, err := d.Get(t.Context(), key, nil); !errors.Is(err, budget.ErrNotFound) {
		t.Errorf("Get(%.40q) = %.40q, %v, want ErrNotFound", key, e.Value, err)
	}
}

func roundTrip(t *testing.T, d budget.Driver) {
	values := []string{"", "null", `"x"`, `{"b":1.10,"a":717897987691852588770249}`, `["\u00e9","é",` + strings.Repeat(" ", 5000) + `1]`,
		"not JSON \x00\xff"}
	for i, v := range values {
		put(t, d, fmt.Sprint(i), entry(fmt.Sprint("owner", i), v))
	}
	for i, v := range values {
		wantEntry(t, d, fmt.Sprint(i), entry(fmt.Sprint("owner", i), v))
	}
	noOwner := entry("", "1")
	put(t, d, "no owner", noOwner)
	wantEntry(t, d, "no owner", noOwner)
	longest := entry(strings.Repeat("ö", 128), "1")
	put(t, d, "long owner", longest)
	wantEntry(t, d, "long owner", longest)
}

func anyKey(t *testing.T, d budget.Driver) {
	keys := []string{"", ".", "..", "../escaped", "/etc/passwd", "a/b", `a\b`, "a\x00b", "CON", "é", "A", "a", "\xff",
		strings.Repeat("k", 10_000), "new-1.onecall", "*", "{hash}"}
	for i, k := range keys {
		put(t, d, k, entry("o", fmt.Sprint(i)))
	}
	for i, k := range keys {
		wantEntry(t, d, k, entry("o", fmt.Sprint(i)))
	}
}

func absent(t *testing.T, d budget.Driver) {
	wantAbsent(t, d, "nothing")
	if err := d.Touch(t.Context(), "nothing", time.Now().Add(time.Hour)); !errors.Is(err, budget.ErrNotFound) {
		t.Errorf("Touch of an absent key: %v, want ErrNotFound", err)
	}
	if err := d.Delete(t.Context(), "nothing"); err != nil {
		t.Errorf("Delete of an absent key: %v", err)
	}
	wantAbsent(t, d, "nothing")
}

func replaced(t *testing.T, d budget.Driver) {
	put(t, d, "k", entry("first", strings.Repeat("1", 1000)))
	put(t, d, "k", entry("second", "2"))
	wantEntry(t, d, "k", entry("second", "2"))
}

func expired(t *testing.T, d budget.Driver) {
	e := entry("o", "1")
	e.Created, e.Expires = e.Created.Add(-2*time.Minute), e.Created.Add(-time.Minute)
	put(t, d, "k", e)
	wantAbsent(t, d, "k")
	if err := d.Touch(t.Context(), "k", time.Now().Add(time.Hour)); !errors.Is(err, budget.ErrNotFound) {
		t.Errorf("Touch of an expired key: %v, want ErrNotFound", err)
	}
	wantAbsent(t, d, "k")
	put(t, d, "k", entry("o", "2"))
	wantEntry(t, d, "k", entry("o", "2"))
}

func touched(t *testing.T, d budget.Driver) {
	e := entry("o", `{"a":1}`)
	put(t, d, "k", e)
	put(t, d, "other", e)
	for _, life := range []time.Duration{time.Hour, 2 * time.Hour, 30 * time.Minute} {
		e.Expires = e.Created.Add(life)
		if err := d.Touch(t.Context(), "k", e.Expires); err != nil {
			t.Fatalf("Touch: %v", err)
		}
		wantEntry(t, d, "k", e)
	}
	if err := d.Touch(t.Context(), "k", time.Now().Add(-time.Minute)); err != nil {
		t.Fatalf("Touch to the past: %v", err)
	}
	wantAbsent(t, d, "k")
	e.Expires = e.Created.Add(time.Hour)
	wantEntry(t, d, "other", e)
}

func deleted(t *testing.T, d budget.Driver) {
	put(t, d, "k", entry("o", "1"))
	put(t, d, "other", entry("o", "2"))
	for range 2 {
		if err := d.Delete(t.Context(), "k"); err != nil {
			t.Fatalf("Delete: %v", err)
		}
		wantAbsent(t, d, "k")
	}
	wantEntry(t, d, "other", entry("o", "2"))
}

// changedLimit checks changes of the limit: nothing is removed if it grows, and the oldest results are removed if it shrinks.
func changedLimit(t *testing.T, d budget.Driver) {
	const size = 1 << 20
	random := make([]byte, size) // cannot be compressed
	_, _ = rand.NewChaCha8([32]byte{2}).Read(random)
	add := func(i int) error {
		e := entry("o", string(random))
		e.Created, e.Expires = e.Created.Add(time.Duration(i)*time.Second), e.Expires.Add(time.Duration(i)*time.Second)
		return d.Put(t.Context(), fmt.Sprint(i), e)
	}
	setMaxBytes := func(bytes int64) {
		t.Helper()
		if err := d.SetMaxBytes(bytes); err != nil {
			t.Fatalf("SetMaxBytes(%d): %v", bytes, err)
		}
	}
	putAll := func(from, to int) {
		t.Helper()
		for i := from; i <= to; i++ {
			if err := add(i); err != nil {
				t.Fatalf("Put(%d): %v", i, err)
			}
		}
	}
	has := func(i int) bool {
		e, err := d.Get(t.Context(), fmt.Sprint(i), nil)
		if err != nil && !errors.Is(err, budget.ErrNotFound) {
			t.Errorf("Get(%d): %v", i, err)
		}
		return err == nil && bytes.Equal(e.Value, random)
	}
	wantAll := func(from, to int) {
		t.Helper()
		for i := from; i <= to; i++ {
			if !has(i) {
				t.Errorf("result %d was evicted", i)
			}
		}
	}
	putAll(0, 3)
	for _, larger := range []int64{8 * size, -1, 0} {
		setMaxBytes(larger)
		wantAll(0, 3)
	}
	if err := d.SetMaxBytes(-2); fault.CodeOf(err) != fault.BadRequest {
		t.Errorf("SetMaxBytes(-2): %v, want bad_request", err)
	}
	wantAll(0, 3)
	setMaxBytes(5 * size / 2)
	putAll(4, 4)
	wantAll(4, 4)
	for i := range 3 {
		if has(i) {
			t.Errorf("result %d was not evicted by newer ones", i)
		}
	}
	setMaxBytes(size)
	if err := add(5); fault.CodeOf(err) != fault.LimitExceeded {
		t.Errorf("Put of a result above the new limit: %v, want limit_exceeded", err)
	}
	setMaxBytes(16 * size)
	putAll(6, 11)
	wantAll(6, 11)
}

func largeValue(t *testing.T, d budget.Driver) {
	random := make([]byte, 64<<20)                   // cannot be compressed
	_, _ = rand.NewChaCha8([32]byte{1}).Read(random) // never fails
	put(t, d, "random", entry("o", string(random)))
	zeros := strings.Repeat("0", 32<<20) // compresses to almost nothing
	put(t, d, "zeros", entry("o", zeros))
	wantEntry(t, d, "random", entry("o", string(random)))
	wantEntry(t, d, "zeros", entry("o", zeros))
}

func concurrentUse(t *testing.T, d budget.Driver) {
	var users sync.WaitGroup
	for user := range 8 {
		users.Go(func() {
			for i := range 20 {
				key, e := fmt.Sprint(user, "-", i), entry(fmt.Sprint(user), strings.Repeat(fmt.Sprint(i), 100*user))
				if err := d.Put(t.Context(), key, e); err != nil {
					t.Errorf("Put: %v", err)
				}
				if err := d.Touch(t.Context(), key, e.Expires); err != nil {
					t.Errorf("Touch: %v", err)
				}
				if got, err := d.Get(t.Context(), key, nil); err != nil || got.Owner != e.Owner || !bytes.Equal(got.Value, e.Value) {
					t.Errorf("Get(%s) = %.40q of %q, %v", key, got.Value, got.Owner, err)
				}
				if i%2 == 0 {
					if err := d.Delete(t.Context(), key); err != nil {
						t.Errorf("Delete: %v", err)
					}
				}
			}
		})
	}
	users.Wait()
	for user := range 8 {
		wantAbsent(t, d, fmt.Sprint(user, "-", 18))
		wantEntry(t, d, fmt.Sprint(user, "-", 19), entry(fmt.Sprint(user), strings.Repeat("19", 100*user)))
	}
}

// oneKey checks that readers see a whole entry, one of those that were stored, or none.
func oneKey(t *testing.T, d budget.Driver) {
	var users sync.WaitGroup
	for user := range 4 {
		owner := fmt.Sprint(user)
		e := entry(owner, strings.Repeat(owner, 50_000))
		users.Go(func() {
			for range 20 {
				if err := d.Put(t.Context(), "k", e); err != nil {
					t.Errorf("Put: %v", err)
				}
				got, err := d.Get(t.Context(), "k", nil)
				if errors.Is(err, budget.ErrNotFound) {
					continue
				}
				if err != nil || string(got.Value) != strings.Repeat(got.Owner, 50_000) {
					t.Errorf("Get = %d bytes of %q, %v", len(got.Value), got.Owner, err)
				}
				if err := d.Touch(t.Context(), "k", e.Expires); err != nil && !errors.Is(err, budget.ErrNotFound) {
					t.Errorf("Touch: %v", err)
				}
				if user == 0 {
					if err := d.Delete(t.Context(), "k"); err != nil {
						t.Errorf("Delete: %v", err)
					}
				}
			}
		})
	}
	users.Wait()
}

func endedContexts(t *testing.T, d budget.Driver) {
	put(t, d, "k", entry("o", "1"))
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for want, ctx := range map[error]context.Context{context.Canceled: cancelled, context.DeadlineExceeded: late} {
		for name, err := range operations(ctx, d) {
			if !errors.Is(err, want) {
				t.Errorf("%s in an ended context: %v, want %v", name, err, want)
			}
		}
	}
	wantEntry(t, d, "k", entry("o", "1"))
}

func closed(t *testing.T, d budget.Driver) {
	put(t, d, "k", entry("o", "1"))
	for range 2 {
		if err := d.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
	for name, err := range operations(t.Context(), d) {
		if !errors.Is(err, budget.ErrClosed) {
			t.Errorf("%s of a closed store: %v, want ErrClosed", name, err)
		}
	}
}

// operations calls every operation on the key k and returns the errors.
func operations(ctx context.Context, d budget.Driver) map[string]error {
	_, get := d.Get(ctx, "k", nil)
	return map[string]error{
		"Get":    get,
		"Put":    d.Put(ctx, "k", entry("o", "2")),
		"Touch":  d.Touch(ctx, "k", time.Now().Add(-time.Hour)),
		"Delete": d.Delete(ctx, "k"),
	}
}
