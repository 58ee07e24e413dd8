package redisstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/redisstore"
	"github.com/onecall-mcp/onecall/budget/storetest"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/internal/redisconn/redistest"
)

func TestDriver(t *testing.T) {
	t.Parallel()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		storetest.Run(t, func(t *testing.T) budget.Driver {
			server := miniredis.RunT(t)
			server.SetTime(time.Now()) // miniredis stores remaining lifetimes; otherwise it would read the clock again for each command
			return open(t, redisstore.Options{URL: "redis://" + server.Addr(), Timeout: time.Minute})
		})
	})
	for name, compress := range map[string]int{"server": -1, "server, all compressed": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			storetest.Run(t, func(t *testing.T) budget.Driver {
				return open(t, redisstore.Options{URL: server.URL(), Prefix: t.Name(), Compress: compress, Timeout: time.Minute})
			})
		})
	}
}

func TestReplicas(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	first, second := open(t, redisstore.Options{URL: server.URL()}), open(t, redisstore.Options{URL: server.TCP()})
	otherPrefix := open(t, redisstore.Options{URL: server.URL(), Prefix: "apart:"})
	now := time.Now()
	put(t, first, "k", entry(now, `{"a":1}`))
	if e, err := second.Get(t.Context(), "k", nil); err != nil || string(e.Value) != `{"a":1}` || e.Owner != "o" {
		t.Errorf(`Get by another replica: %q of %q, %v; want {"a":1} of o`, e.Value, e.Owner, err)
	}
	if _, err := otherPrefix.Get(t.Context(), "k", nil); !errors.Is(err, budget.ErrNotFound) {
		t.Errorf("Get with another prefix: %v, want ErrNotFound", err)
	}
	must(t, second.Touch(t.Context(), "k", now.Add(time.Hour)))
	if e, err := first.Get(t.Context(), "k", nil); err != nil || e.Expires.Sub(now) < 59*time.Minute {
		t.Errorf("extended by another replica, the result expires in %v, %v; want at least 59m", e.Expires.Sub(now), err)
	}
	must(t, first.Close())
	if _, err := second.Get(t.Context(), "k", nil); err != nil {
		t.Errorf("Get after the replica that stored it was closed: %v", err)
	}
	must(t, second.Delete(t.Context(), "k"))
	if left := server.Client(t).Keys(t.Context(), "*").Val(); len(left) != 0 {
		t.Errorf("keys left on the server: %q, want none", left)
	}
}

// A replica whose clock is wrong, or jumps, sees the right lifetimes, and so do the other replicas.
func TestClocks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	near := func(got, want time.Duration) bool { return (got - want).Abs() < 30*time.Second }
	for _, skew := range []time.Duration{-1000 * time.Hour, -time.Hour, 0, time.Hour, 1000 * time.Hour} {
		for _, jump := range []time.Duration{-time.Hour, 0, time.Hour} {
			t.Run(fmt.Sprint(skew, jump), func(t *testing.T) {
				t.Parallel()
				offset := skew
				skewed := func() time.Time { return time.Now().Add(offset) }
				first := open(t, redisstore.Options{URL: server.URL(), Prefix: t.Name(), Now: skewed})
				second := open(t, redisstore.Options{URL: server.URL(), Prefix: t.Name()})
				e := entry(skewed(), "1")
				e.Created = e.Created.Add(-time.Minute)
				put(t, first, "k", e)
				offset += jump
				for range 2 {
					for name, get := range map[string]func() (time.Time, budget.Entry, error){
						"itself": func() (time.Time, budget.Entry, error) {
							e, err := first.Get(t.Context(), "k", nil)
							return skewed(), e, err
						},
						"another": func() (time.Time, budget.Entry, error) {
							e, err := second.Get(t.Context(), "k", nil)
							return time.Now(), e, err
						},
					} {
						if now, e, err := get(); err != nil || !near(e.Expires.Sub(now), 5*time.Minute) || !near(now.Sub(e.Created), time.Minute) {
							t.Errorf("seen by %s the result lives from %v to %v (%v), want -1m to 5m", name, e.Created.Sub(now), e.Expires.Sub(now), err)
						}
					}
					must(t, first.Touch(t.Context(), "k", skewed().Add(5*time.Minute)))
				}
			})
		}
	}
}

// Results that have expired on the server no longer count after the next Put.
func TestExpiredIsNotCounted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, redisstore.Options{URL: server.URL()})
	put(t, s, "long", entry(time.Now(), "1")) // the index expires with the last entry
	for i := range 600 {                      // more than one batch of the script
		e := entry(time.Now(), "1")
		e.Expires = time.Now().Add(100 * time.Millisecond)
		put(t, s, fmt.Sprint(i), e)
	}
	polltest.Until(t, "the last to expire", func() bool {
		_, err := s.Get(t.Context(), "599", nil)
		return errors.Is(err, budget.ErrNotFound)
	})
	put(t, s, "k", entry(time.Now(), "1"))
	client := server.Client(t)
	if err := checkIndex(t.Context(), client, testPrefix, 2_000); err != nil {
		t.Error(err)
	}
	if n := client.ZCard(t.Context(), testPrefix+"by-expiry").Val(); n != 2 {
		t.Errorf("%d results in the index, want 2", n)
	}
}

// A store that is no longer used leaves nothing on the server, and keys of others are not changed.
func TestNothingLeftOnServer(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	must(t, server.Set("mine", "1"))
	s := open(t, redisstore.Options{URL: "redis://" + server.Addr()})
	for i := range 3 {
		put(t, s, fmt.Sprint(i), entry(time.Now(), "1"))
	}
	must(t, s.Touch(t.Context(), "1", time.Now().Add(time.Hour)))
	server.FastForward(10 * time.Minute)
	if _, err := s.Get(t.Context(), "0", nil); !errors.Is(err, budget.ErrNotFound) {
		t.Errorf("Get of an expired result: %v, want ErrNotFound", err)
	}
	if e, err := s.Get(t.Context(), "1", nil); err != nil || string(e.Value) != "1" {
		t.Errorf("Get of an extended result: %q, %v; want 1", e.Value, err)
	}
	if keys := server.Keys(); len(keys) != 6 {
		t.Errorf("keys %q, want one result, the index and the foreign key", keys)
	}
	server.FastForward(time.Hour)
	if keys := server.Keys(); !slices.Equal(keys, []string{"mine"}) {
		t.Errorf("keys %q, want only the foreign key", keys)
	}
}

// Each stored byte is changed in turn, and the string is cut at each length. It then reads as before, except for its time, or is not found.
func TestDamaged(t *testing.T) {
	t.Parallel()
	for name, compress := range map[string]int{"plain": -1, "compressed": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := miniredis.RunT(t)
			s := open(t, redisstore.Options{URL: "redis://" + server.Addr(), Compress: compress})
			put(t, s, "k", entry(time.Now(), strings.Repeat("abc", 20)))
			put(t, s, "other", entry(time.Now(), "1"))
			var key, other, whole string
			for _, k := range server.Keys() {
				switch v, err := server.Get(k); {
				case err != nil: // a key of the index
				case strings.HasSuffix(v, "o1"):
					other = k
				default:
					key, whole = k, v
				}
			}
			damaged := []string{""}
			for i := range whole {
				damaged = append(damaged, whole[:i], whole[:i]+string([]byte{whole[i] ^ 1})+whole[i+1:], whole[:i]+"\xff"+whole[i+1:])
			}
			for _, d := range damaged {
				server.Set(key, d)
				server.SetTTL(key, time.Minute)
				e, err := s.Get(t.Context(), "k", nil)
				if !errors.Is(err, budget.ErrNotFound) &&
					(err != nil || string(e.Value) != strings.Repeat("abc", 20) || e.Owner != "o" || d[20:] != whole[20:]) {
					t.Fatalf("damaged entry %q was read as %q of %q, %v; want ErrNotFound, or the result as it was put", d, e.Value, e.Owner, err)
				}
			}
			server.Set(other, whole)
			server.SetTTL(other, time.Minute)
			if _, err := s.Get(t.Context(), "other", nil); !errors.Is(err, budget.ErrNotFound) {
				t.Errorf("Get of an entry moved from another key: %v, want ErrNotFound", err)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []redisstore.Options{
		{URL: "redis://h", Prefix: strings.Repeat("p", 201)},
		{URL: "redis://h", MaxBytes: -2},
		{URL: "redis://h", Timeout: -1},
		{URL: "redis://h", Timeout: time.Microsecond},
		{URL: "redis://h", Compress: -2},
		{},
		{URL: "s3cr3t-word"},
		{URL: "http://onecall:s3cr3t-word@h"},
		{URL: "redis://onecall:s3cr3t-word@"},
		{URL: "redis://onecall:s3cr3t-word@h/db"},
		{URL: "redis://onecall:s3cr3t-word@h/-1"},
		{URL: "redis://onecall:s3cr3t-word@h/1/2"},
		{URL: "redis://onecall:s3cr3t-word@h:port"},
		{URL: "redis://onecall:s3cr3t-word#1@h"},
		{URL: "redis://onecall:s3cr3t-word/1@h"},
		{URL: "redis://onecall:s3cr3t-word%zz@h"},
		{URL: "redis://h?pool_size=9"},
		{URL: "redis://h?password=s3cr3t-word"},
		{URL: "redis:s3cr3t-word"},
		{URL: "unix://"},
		{URL: "unix://onecall:s3cr3t-word@host/s"},
		{URL: "unix:///s?db=s3cr3t-word"},
	} {
		s, err := redisstore.New(&o)
		if fault.CodeOf(err) != fault.BadRequest || s != nil {
			t.Errorf("New(%+v): %v, want bad_request", o, err)
		}
		wantNoSecret(t, err)
	}
	if _, err := redisstore.New(nil); fault.CodeOf(err) != fault.BadRequest {
		t.Errorf("New(nil): %v, want bad_request", err)
	}
}

// wantNoSecret checks that neither an error nor its causes show the user or the password of the tests' URLs.
func wantNoSecret(t *testing.T, err error) {
	t.Helper()
	for ; err != nil; err = errors.Unwrap(err) {
		if text := fmt.Sprintf("%v %+v", err, err); strings.Contains(text, "s3cr3t") || strings.Contains(text, "onecall:") {
			t.Errorf("an error shows a secret: %s", text)
		}
	}
}
