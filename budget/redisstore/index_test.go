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

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/redisstore"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/redisconn/redistest"
)

// incompressible returns n bytes that cannot be compressed.
func incompressible(n int) string {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n), byte(n >> 8)}).Read(b)
	return string(b)
}

func TestEvictLeastRecentlyUsed(t *testing.T) {
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
				t.Fatalf("the result in use was evicted: %v", err)
			}
		}
		if _, err := s.Get(t.Context(), fmt.Sprint(i), nil); err != nil {
			t.Fatalf("result %d was evicted at once: %v", i, err)
		}
		if err := checkIndex(t.Context(), client, testPrefix, 20_000); err != nil {
			t.Fatalf("index after result %d: %v", i, err)
		}
	}
	if _, err := s.Get(t.Context(), "1", nil); !errors.Is(err, budget.ErrNotFound) {
		t.Errorf("Get of the least recently used result: %v, want ErrNotFound", err)
	}
	short := entry(now, incompressible(18_000))
	short.Expires = now.Add(30 * time.Second) // it expires before all others
	put(t, s, "alone", short)
	if _, err := s.Get(t.Context(), "alone", nil); err != nil {
		t.Errorf("the newest result was evicted instead of older ones: %v", err)
	}
	if n := client.HLen(t.Context(), testPrefix+"sizes").Val(); n > 4 {
		t.Errorf("%d entries in the index with a result nearly as large as the store, want at most 4", n)
	}
	if err := s.Put(t.Context(), "too large", entry(now, incompressible(20_000))); fault.CodeOf(err) != fault.LimitExceeded {
		t.Errorf("Put of a value larger than the store: %v, want limit_exceeded", err)
	}
}

// checkIndex compares the index with the entries that exist.
func checkIndex(ctx context.Context, c *redis.Client, prefix string, maximum int) error {
	sizes, err := c.HGetAll(ctx, prefix+"sizes").Result()
	if err != nil {
		return err
	}
	total, _ := strconv.Atoi(sizes["total"])
	delete(sizes, "total")
	sum, shares, ownerOf := 0, map[string]float64{}, map[string]string{}
	for id, size := range sizes {
		bytes, piece, _ := strings.Cut(size, " ")
		n, _ := strconv.Atoi(bytes)
		sum += n
		shares[piece] += float64(n)
		ownerOf[id] = piece
		if length := c.StrLen(ctx, prefix+id).Val(); length != int64(n)-512 {
			return fmt.Errorf("%s has %d bytes, the index counts %d", id, length, n)
		}
	}
	if sum != total || total > maximum {
		return fmt.Errorf("the entries add up to %d, the total is %d, the limit %d", sum, total, maximum)
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
		return fmt.Errorf("by-expiry has %q, sizes has %q", ordered, indexed)
	}
	for piece := range shares {
		for _, z := range c.ZRangeWithScores(ctx, prefix+"of:"+piece, 0, -1).Val() {
			id := z.Member.(string)
			if at := c.PExpireTime(ctx, prefix+id).Val().Milliseconds(); ownerOf[id] != piece || at != int64(z.Score) {
				return fmt.Errorf("%s of %q expires at %d, in the index of %q at %.0f", id, ownerOf[id], at, piece, z.Score)
			}
			delete(ownerOf, id)
		}
	}
	indexed := map[string]float64{}
	for _, z := range c.ZRangeWithScores(ctx, prefix+"parts", 0, -1).Val() {
		indexed[z.Member.(string)] = z.Score
	}
	if len(ownerOf) > 0 || !maps.Equal(indexed, shares) {
		return fmt.Errorf("missing in the indexes of owners: %v; bytes by owner %v, want %v", ownerOf, indexed, shares)
	}
	keys, want := c.Keys(ctx, prefix+"*").Val(), len(ordered)
	if want > 0 {
		want += 3 + len(shares)
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

// After any operations, the index matches the entries, the limit holds, and the newest result exists.
func TestIndexProperty(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		prefix := fmt.Sprint("p", runs, ":")
		const maximum = 10_000
		s := open(t, redisstore.Options{URL: server.URL(), Prefix: prefix, MaxBytes: maximum})
		newest := map[string]string{} // what was put and not deleted; it may have been evicted
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			key := rapid.StringMatching("[a-h]").Draw(rt, "key")
			until := time.Now().Add(time.Duration(rapid.IntRange(1, 100).Draw(rt, "minutes")) * time.Minute)
			switch rapid.IntRange(0, 5).Draw(rt, "operation") {
			case 0:
				must(rt, s.Delete(t.Context(), key))
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
				e := budget.Entry{Owner: rapid.SampledFrom([]string{"", "x", "x:2:", "y:1:abc"}).Draw(rt, "owner"), Created: time.Now(),
					Expires: until, Value: []byte(incompressible(rapid.IntRange(0, 9000).Draw(rt, "size")))}
				err := s.Put(t.Context(), key, e)
				if fault.CodeOf(err) == fault.LimitExceeded && len(e.Value) > maximum/2-700 {
					delete(newest, key) // it takes more than half, and other owners have results
					continue
				}
				must(rt, err)
				newest[key] = string(e.Value)
				if got, err := s.Get(t.Context(), key, nil); err != nil || !bytes.Equal(got.Value, e.Value) {
					rt.Fatalf("Get of the newest result: %q, %v; want %q", got.Value, err, e.Value)
				}
			}
			must(rt, checkIndex(t.Context(), client, prefix, maximum))
			for _, k := range strings.Split("abcdefgh", "") {
				got, err := s.Get(t.Context(), k, nil)
				if want, ok := newest[k]; err == nil && (!ok || want != string(got.Value)) {
					rt.Fatalf("%s has a value that was deleted or replaced", k)
				}
			}
		}
		_ = s.Close()
	})
}

// If the server has evicted part of the index, or another client changed it, the store works on and repairs the index.
func TestIndexLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	for name, lose := range map[string]func(prefix string) error{
		"order":              func(prefix string) error { return client.Del(t.Context(), prefix+"by-expiry").Err() },
		"sizes":              func(prefix string) error { return client.Del(t.Context(), prefix+"sizes").Err() },
		"parts":              func(prefix string) error { return client.Del(t.Context(), prefix+"parts").Err() },
		"a part":             func(prefix string) error { return client.Del(t.Context(), prefix+"of:o").Err() },
		"both":               func(prefix string) error { return client.Del(t.Context(), prefix+"by-expiry", prefix+"sizes").Err() },
		"total too high":     func(prefix string) error { return client.HSet(t.Context(), prefix+"sizes", "total", 1<<40).Err() },
		"total not a number": func(prefix string) error { return client.HSet(t.Context(), prefix+"sizes", "total", "many").Err() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := name + ":"
			s := open(t, redisstore.Options{URL: server.URL(), Prefix: prefix, MaxBytes: 10_000})
			for i := range 5 {
				put(t, s, fmt.Sprint("before", i), entry(time.Now(), incompressible(1000)))
			}
			must(t, lose(prefix))
			put(t, s, "after", entry(time.Now(), incompressible(1000)))
			if _, err := s.Get(t.Context(), "after", nil); err != nil {
				t.Errorf("Get of the newest result: %v", err)
			}
			if name == "order" || name == "sizes" || name == "parts" {
				if err := checkIndex(t.Context(), client, prefix, 10_000); err != nil {
					t.Error(err)
				}
				if n := client.ZCard(t.Context(), prefix+"by-expiry").Val(); n != 6 {
					t.Errorf("%d results in the index, want 6", n)
				}
			}
			for i := range 20 {
				put(t, s, fmt.Sprint("later", i), entry(time.Now(), incompressible(1000)))
			}
			total, err := client.HGet(t.Context(), prefix+"sizes", "total").Int()
			if err != nil || total > 10_000 || total < 8_000 {
				t.Errorf("the total is %d, want 8000 to 10000: %v", total, err)
			}
		})
	}
}

// TestEvictManyAtOnce: if owners have equal shares, much is evicted in few rounds, from all of them equally.
func TestEvictManyAtOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	const owners, perOwner, size = 8, 50, 1512 // bytes that an entry counts
	const maximum = owners * perOwner * size
	s := open(t, redisstore.Options{URL: server.URL(), MaxBytes: maximum, Compress: -1})
	owned := func(owner int, value string) budget.Entry {
		e := entry(time.Now(), value)
		e.Owner = fmt.Sprintf("%d:", owner)
		return e
	}
	for i := range perOwner {
		for owner := range owners {
			put(t, s, fmt.Sprint(owner, i), owned(owner, incompressible(size-512-headerAndOwner)))
		}
	}
	if n := client.HLen(t.Context(), testPrefix+"sizes").Val(); n != owners*perOwner+1 {
		t.Fatalf("%d entries in the index before the large result, want one per result and a total", n)
	}
	must(t, client.ConfigResetStat(t.Context()).Err())
	put(t, s, "large", owned(owners, incompressible(maximum/2-10_000)))
	if err := checkIndex(t.Context(), client, testPrefix, maximum); err != nil {
		t.Error(err)
	}
	var left []int
	for owner := range owners {
		left = append(left, int(client.ZCard(t.Context(), fmt.Sprintf("%sof:%d", testPrefix, owner)).Val()))
	}
	if minimum, greatest := slices.Min(left), slices.Max(left); minimum < perOwner/2-5 || greatest > perOwner/2+5 {
		t.Errorf("of %d results per owner, %v are left, want half", perOwner, left)
	}
	stats := client.Info(t.Context(), "commandstats").Val()
	_, calls, _ := strings.Cut(stats, "cmdstat_unlink:calls=")
	calls, _, _ = strings.Cut(calls, ",")
	if n, err := strconv.Atoi(calls); err != nil || n > owners*perOwner/4 {
		t.Errorf("%s unlink calls (%v) to evict half of %d results, want at most %d", calls, err, owners*perOwner, owners*perOwner/4)
	}
}

// testPrefix begins the keys of a store without a prefix of its own.
const testPrefix = "onecall:results:"

// headerAndOwner is the number of bytes before the value in an entry whose owner has two letters.
const headerAndOwner = 41
