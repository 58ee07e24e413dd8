package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/redisstore"
	"github.com/onecall-mcp/onecall/budget/storetest"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/redisclient/redistest"
)

func TestDriver(t *testing.T) {
	t.Parallel()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		storetest.Run(t, func(t *testing.T) budget.Driver {
			server := miniredis.RunT(t)
			server.SetTime(time.Now()) // it keeps what is left of a life, by a clock that it else reads once more a command
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
	one, other := open(t, redisstore.Options{URL: server.URL()}), open(t, redisstore.Options{URL: server.TCP()})
	apart := open(t, redisstore.Options{URL: server.URL(), Prefix: "apart:"})
	now := time.Now()
	put(t, one, "k", entry(now, `{"a":1}`))
	if e, err := other.Get(t.Context(), "k"); err != nil || string(e.Value) != `{"a":1}` || e.Owner != "o" {
		t.Errorf("in the other replica: %q of %q, %v", e.Value, e.Owner, err)
	}
	if _, err := apart.Get(t.Context(), "k"); !errors.Is(err, budget.ErrNotFound) {
		t.Errorf("under another prefix: %v, want ErrNotFound", err)
	}
	if err := other.Touch(t.Context(), "k", now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if e, err := one.Get(t.Context(), "k"); err != nil || e.Expires.Sub(now) < 59*time.Minute {
		t.Errorf("after the other extended its life: until %v, %v", e.Expires, err)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Get(t.Context(), "k"); err != nil {
		t.Errorf("after the replica that kept it was closed: %v", err)
	}
	if err := other.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if left := server.Client(t).Keys(t.Context(), "*").Val(); len(left) != 0 {
		t.Errorf("left on the server: %q", left)
	}
}

// A replica whose clock is wrong, or jumps, sees lives of the right length, and so do the others.
func TestClocks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	near := func(got, want time.Duration) bool { return (got - want).Abs() < 30*time.Second }
	for _, skew := range []time.Duration{-1000 * time.Hour, -time.Hour, 0, time.Hour, 1000 * time.Hour} {
		for _, jump := range []time.Duration{-time.Hour, 0, time.Hour} {
			t.Run(fmt.Sprint(skew, jump), func(t *testing.T) {
				t.Parallel()
				is := skew
				wrong := func() time.Time { return time.Now().Add(is) }
				one := open(t, redisstore.Options{URL: server.URL(), Prefix: t.Name(), Now: wrong})
				other := open(t, redisstore.Options{URL: server.URL(), Prefix: t.Name()})
				e := entry(wrong(), "1")
				e.Created = e.Created.Add(-time.Minute)
				put(t, one, "k", e)
				is += jump
				for range 2 {
					for name, look := range map[string]func() (time.Time, budget.Entry, error){
						"itself": func() (time.Time, budget.Entry, error) { e, err := one.Get(t.Context(), "k"); return wrong(), e, err },
						"another": func() (time.Time, budget.Entry, error) {
							e, err := other.Get(t.Context(), "k")
							return time.Now(), e, err
						},
					} {
						if now, e, err := look(); err != nil || !near(e.Expires.Sub(now), 5*time.Minute) || !near(now.Sub(e.Created), time.Minute) {
							t.Errorf("for %s it lives from %v to %v (%v), want from -1m to 5m", name, e.Created.Sub(now), e.Expires.Sub(now), err)
						}
					}
					if err := one.Touch(t.Context(), "k", wrong().Add(5*time.Minute)); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}

// incompressible gives so many bytes.
func incompressible(n int) string {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n), byte(n >> 8)}).Read(b)
	return string(b)
}

func TestLeastUsedGiveWay(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	s := open(t, redisstore.Options{URL: server.URL(), MaxBytes: 20_000})
	now := time.Now()
	for i := range 50 {
		e := entry(now, incompressible(1000+i))
		e.Expires = e.Expires.Add(time.Duration(i) * time.Second)
		put(t, s, fmt.Sprint(i), e)
		if i > 0 {
			if err := s.Touch(t.Context(), "0", e.Expires); err != nil {
				t.Fatalf("what is used gave way: %v", err)
			}
		}
		if _, err := s.Get(t.Context(), fmt.Sprint(i)); err != nil {
			t.Fatalf("result %d is gone as soon as it was kept: %v", i, err)
		}
		if err := checkIndex(t.Context(), client, redisstore.DefaultPrefix, 20_000); err != nil {
			t.Fatalf("after %d: %v", i, err)
		}
	}
	if _, err := s.Get(t.Context(), "1"); !errors.Is(err, budget.ErrNotFound) {
		t.Errorf("the least used is still there: %v", err)
	}
	short := entry(now, incompressible(18_000))
	short.Expires = now.Add(30 * time.Second) // before all others
	put(t, s, "alone", short)
	if _, err := s.Get(t.Context(), "alone"); err != nil {
		t.Errorf("the new one gave way to older ones: %v", err)
	}
	if n := client.HLen(t.Context(), redisstore.DefaultPrefix+"sizes").Val(); n > 4 {
		t.Errorf("%d results are left beside a value of nearly all room", n)
	}
	if err := s.Put(t.Context(), "too large", entry(now, incompressible(20_000))); fault.CodeOf(err) != fault.LimitExceeded {
		t.Errorf("Put of a value larger than the store: %v, want limit_exceeded", err)
	}
}

// checkIndex compares the index with the entries that are there.
func checkIndex(ctx context.Context, c *redis.Client, prefix string, most int) error {
	sizes, err := c.HGetAll(ctx, prefix+"sizes").Result()
	if err != nil {
		return err
	}
	total, _ := strconv.Atoi(sizes["total"])
	delete(sizes, "total")
	sum := 0
	for id, size := range sizes {
		n, _ := strconv.Atoi(size)
		sum += n
		if length := c.StrLen(ctx, prefix+id).Val(); length != int64(n)-512 {
			return fmt.Errorf("%s has %d bytes and counts %d", id, length, n)
		}
	}
	if sum != total || total > most {
		return fmt.Errorf("the entries count %d, the sum is %d, the bound %d", sum, total, most)
	}
	var ordered []string
	for _, z := range c.ZRangeWithScores(ctx, prefix+"by-expiry", 0, -1).Val() {
		id := z.Member.(string)
		ordered = append(ordered, id)
		if at := c.PExpireTime(ctx, prefix+id).Val().Milliseconds(); at != int64(z.Score) {
			return fmt.Errorf("%s expires at %d, in the index at %.0f", id, at, z.Score)
		}
	}
	slices.Sort(ordered)
	if indexed := slices.Sorted(maps.Keys(sizes)); !slices.Equal(indexed, ordered) {
		return fmt.Errorf("ordered are %q, counted %q", ordered, indexed)
	}
	keys, want := c.Keys(ctx, prefix+"*").Val(), len(ordered)
	if want > 0 {
		want += 2
	}
	if len(keys) != want {
		return fmt.Errorf("%d keys, want %d: %q", len(keys), want, keys)
	}
	for _, k := range keys {
		if c.PTTL(ctx, k).Val() <= 0 {
			return fmt.Errorf("%s would never expire", k)
		}
	}
	return nil
}

// Whatever is done, the index tells what is there, the bound holds, and the newest is there.
func TestIndexProperty(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		prefix := fmt.Sprint("p", runs, ":")
		const most = 10_000
		s := open(t, redisstore.Options{URL: server.URL(), Prefix: prefix, MaxBytes: most})
		newest := map[string]string{} // what was put and not deleted; it may have given way
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			key := rapid.StringMatching("[a-h]").Draw(rt, "key")
			until := time.Now().Add(time.Duration(rapid.IntRange(1, 100).Draw(rt, "minutes")) * time.Minute)
			switch rapid.IntRange(0, 5).Draw(rt, "operation") {
			case 0:
				if err := s.Delete(t.Context(), key); err != nil {
					rt.Fatal(err)
				}
				delete(newest, key)
			case 1:
				if err := s.Touch(t.Context(), key, until); err != nil && !errors.Is(err, budget.ErrNotFound) {
					rt.Fatal(err)
				}
			case 2:
				err := s.Touch(t.Context(), key, time.Now().Add(-time.Minute))
				if err != nil && !errors.Is(err, budget.ErrNotFound) {
					rt.Fatal(err)
				}
				delete(newest, key)
			default:
				e := budget.Entry{Owner: key, Created: time.Now(), Expires: until, Value: []byte(incompressible(rapid.IntRange(0, 9000).Draw(rt, "size")))}
				if err := s.Put(t.Context(), key, e); err != nil {
					rt.Fatal(err)
				}
				newest[key] = string(e.Value)
				if got, err := s.Get(t.Context(), key); err != nil || !bytes.Equal(got.Value, e.Value) {
					rt.Fatalf("the newest is not there: %v", err)
				}
			}
			if err := checkIndex(t.Context(), client, prefix, most); err != nil {
				rt.Fatal(err)
			}
			for _, k := range strings.Split("abcdefgh", "") {
				got, err := s.Get(t.Context(), k)
				if want, ok := newest[k]; err == nil && (!ok || want != string(got.Value)) {
					rt.Fatalf("%s has a value that it should not have", k)
				}
			}
		}
		_ = s.Close()
	})
}

// Where the server has given up part of the index, or somebody changed it, the store goes on and comes right.
func TestIndexLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	for name, lose := range map[string]func(prefix string) error{
		"order":  func(prefix string) error { return client.Del(t.Context(), prefix+"by-expiry").Err() },
		"sizes":  func(prefix string) error { return client.Del(t.Context(), prefix+"sizes").Err() },
		"both":   func(prefix string) error { return client.Del(t.Context(), prefix+"by-expiry", prefix+"sizes").Err() },
		"higher": func(prefix string) error { return client.HSet(t.Context(), prefix+"sizes", "total", 1<<40).Err() },
		"words":  func(prefix string) error { return client.HSet(t.Context(), prefix+"sizes", "total", "many").Err() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := name + ":"
			s := open(t, redisstore.Options{URL: server.URL(), Prefix: prefix, MaxBytes: 10_000})
			for i := range 5 {
				put(t, s, fmt.Sprint("before", i), entry(time.Now(), incompressible(1000)))
			}
			if err := lose(prefix); err != nil {
				t.Fatal(err)
			}
			put(t, s, "after", entry(time.Now(), incompressible(1000)))
			if _, err := s.Get(t.Context(), "after"); err != nil {
				t.Errorf("the newest is not there: %v", err)
			}
			if name == "order" || name == "sizes" {
				if err := checkIndex(t.Context(), client, prefix, 10_000); err != nil {
					t.Error(err)
				}
				if n := client.ZCard(t.Context(), prefix+"by-expiry").Val(); n != 6 {
					t.Errorf("%d results are counted, want 6", n)
				}
			}
			for i := range 20 {
				put(t, s, fmt.Sprint("later", i), entry(time.Now(), incompressible(1000)))
			}
			total, err := client.HGet(t.Context(), prefix+"sizes", "total").Int()
			if err != nil || total > 10_000 || total < 8_000 {
				t.Errorf("the sum is %d, %v, want nearly the bound", total, err)
			}
		})
	}
}

// What has expired on the server counts no more once something is kept.
func TestExpiredCountsNoMore(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, redisstore.Options{URL: server.URL()})
	put(t, s, "long", entry(time.Now(), "1")) // the index ends with the last
	for i := range 600 {                      // more than one batch of the script
		e := entry(time.Now(), "1")
		e.Expires = time.Now().Add(100 * time.Millisecond)
		put(t, s, fmt.Sprint(i), e)
	}
	redistest.Within(t, "the last to expire", func() bool {
		_, err := s.Get(t.Context(), "599")
		return errors.Is(err, budget.ErrNotFound)
	})
	put(t, s, "k", entry(time.Now(), "1"))
	client := server.Client(t)
	if err := checkIndex(t.Context(), client, redisstore.DefaultPrefix, 2_000); err != nil {
		t.Error(err)
	}
	if n := client.ZCard(t.Context(), redisstore.DefaultPrefix+"by-expiry").Val(); n != 2 {
		t.Errorf("%d results are counted, want 2", n)
	}
}

// Nothing is left on the server of a store that is not used any more, and nothing of others is touched.
func TestNothingLeft(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	if err := server.Set("mine", "1"); err != nil {
		t.Fatal(err)
	}
	s := open(t, redisstore.Options{URL: "redis://" + server.Addr()})
	for i := range 3 {
		put(t, s, fmt.Sprint(i), entry(time.Now(), "1"))
	}
	if err := s.Touch(t.Context(), "1", time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	server.FastForward(10 * time.Minute)
	if _, err := s.Get(t.Context(), "0"); !errors.Is(err, budget.ErrNotFound) {
		t.Errorf("Get of what has expired: %v, want ErrNotFound", err)
	}
	if e, err := s.Get(t.Context(), "1"); err != nil || string(e.Value) != "1" {
		t.Errorf("Get of what was extended: %v", err)
	}
	if keys := server.Keys(); len(keys) != 4 {
		t.Errorf("left are %q, want one result, the index and what is another's", keys)
	}
	server.FastForward(time.Hour)
	if keys := server.Keys(); !slices.Equal(keys, []string{"mine"}) {
		t.Errorf("left are %q, want only what is another's", keys)
	}
}

// Every byte that is kept is changed, and every length cut: it reads as it was, but for its time, or is not found.
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
				case err != nil: // of the index
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
				e, err := s.Get(t.Context(), "k")
				if !errors.Is(err, budget.ErrNotFound) && (err != nil || string(e.Value) != strings.Repeat("abc", 20) || e.Owner != "o" || d[20:] != whole[20:]) {
					t.Fatalf("of %q: %q of %q, %v", d, e.Value, e.Owner, err)
				}
			}
			server.Set(other, whole)
			server.SetTTL(other, time.Minute)
			if _, err := s.Get(t.Context(), "other"); !errors.Is(err, budget.ErrNotFound) {
				t.Errorf("of another key's result: %v, want ErrNotFound", err)
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
		secretFree(t, err)
	}
	if _, err := redisstore.New(nil); fault.CodeOf(err) != fault.BadRequest {
		t.Errorf("New(nil): %v, want bad_request", err)
	}
}

// secretFree checks that neither an error nor its causes tell the user or the password of the tests' URLs.
func secretFree(t *testing.T, err error) {
	t.Helper()
	for ; err != nil; err = errors.Unwrap(err) {
		if text := fmt.Sprintf("%v %+v", err, err); strings.Contains(text, "s3cr3t") || strings.Contains(text, "onecall:") {
			t.Errorf("an error tells a secret: %s", text)
		}
	}
}
