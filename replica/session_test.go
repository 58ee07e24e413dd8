package replica_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/redisclient/redistest"
	"github.com/onecall-mcp/onecall/replica"
	"github.com/onecall-mcp/onecall/steps"
)

// model is what the store must be like: sessions by owner and id, each a map.
type model map[[2]string]map[string]int64

func (m model) of(owner string) (n int) {
	for key := range m {
		if key[0] == owner {
			n++
		}
	}
	return n
}

// TestModel holds two replicas to a map, over random operations on whichever of them.
func TestModel(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		prefix := fmt.Sprint("p", runs, ":")
		var stores []*replica.Store
		for range 2 {
			s, err := replica.New(&replica.Options{URL: server.URL(), Prefix: prefix})
			if err != nil {
				rt.Fatal(err)
			}
			defer s.Close()
			stores = append(stores, s)
		}
		m := model{}
		ids := []string{"none"}
		owners := []string{"a", "b", ""}
		names := []string{"tokens", "told", "ladder:x", "ladder:y", "ladder:\x00\xff\r\n", "p", "w", strings.Repeat("n", 200)}
		ctx := t.Context()
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			s := rapid.SampledFrom(stores).Draw(rt, "replica")
			owner := rapid.SampledFrom(owners).Draw(rt, "owner")
			id := rapid.SampledFrom(ids).Draw(rt, "id")
			want, there := m[[2]string{owner, id}]
			var state steps.SessionState
			if operation := rapid.IntRange(0, 7).Draw(rt, "operation"); operation > 1 {
				var err error
				if state, err = s.Session(ctx, id, owner); (err == nil) != there || err != nil && fault.CodeOf(err) != fault.TokenExpired {
					rt.Fatalf("session %s of %q: %v, there %t", id, owner, err, there)
				}
				if !there {
					continue
				}
				name := rapid.SampledFrom(names).Draw(rt, "name")
				n := rapid.SampledFrom([]int64{0, 1, 2, 1000, replica.MaxNumber - 1, math.MaxInt64}).Draw(rt, "number")
				switch operation {
				case 2:
					if err := s.End(ctx, id, owner); err != nil {
						rt.Fatal(err)
					}
					delete(m, [2]string{owner, id})
				case 3, 4:
					want[name] = min(want[name]+min(n, replica.MaxNumber), replica.MaxNumber)
					if sum, err := state.Add(ctx, name, n); err != nil || sum != want[name] {
						rt.Fatalf("Add(%q, %d): %d, %v, want %d", name, n, sum, err, want[name])
					}
				default:
					values := map[string]int64{name: n - 1, rapid.SampledFrom(names).Draw(rt, "another"): n}
					for name, n := range values {
						want[name] = max(want[name], min(n, replica.MaxNumber))
					}
					if err := state.Raise(ctx, values); err != nil {
						rt.Fatal(err)
					}
				}
			} else {
				most, all := rapid.IntRange(0, 3).Draw(rt, "most"), rapid.IntRange(0, 6).Draw(rt, "all")
				id, err := s.Begin(ctx, owner, most, all)
				full := most > 0 && m.of(owner) >= most || all > 0 && len(m) >= all
				if (err != nil) != full || full && fault.CodeOf(err) != fault.Busy {
					rt.Fatalf("Begin with %d of at most %d, of all %d of at most %d: %v", m.of(owner), most, len(m), all, err)
				}
				if err == nil {
					ids = append(ids, id)
					m[[2]string{owner, id}] = map[string]int64{}
				}
			}
			for key, numbers := range m {
				state, err := stores[0].Session(ctx, key[1], key[0])
				if err != nil {
					rt.Fatal(err)
				}
				got, err := state.Read(ctx, names...)
				if err != nil {
					rt.Fatal(err)
				}
				for i, name := range names {
					if got[i] != numbers[name] {
						rt.Fatalf("%q is %d, want %d", name, got[i], numbers[name])
					}
				}
			}
		}
		for _, key := range client.Keys(ctx, prefix+"*").Val() {
			if client.PTTL(ctx, key).Val() <= 0 {
				rt.Fatalf("%s would never expire", key)
			}
		}
		want := len(m) + min(len(m), 1) + min(m.of("a"), 1) + min(m.of("b"), 1) + min(m.of(""), 1)
		for _, numbers := range m {
			if numbers["ladder:x"]+numbers["ladder:y"]+numbers["ladder:\x00\xff\r\n"] > 0 {
				want++
			}
		}
		if keys := len(client.Keys(ctx, prefix+"*").Val()); keys != want {
			rt.Fatalf("%d keys, want %d", keys, want)
		}
	})
}

func TestBadNames(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	_, state := begin(t, open(t, replica.Options{URL: server.URL()}), "o")
	for _, name := range []string{"", strings.Repeat("n", 201)} {
		_, read := state.Read(t.Context(), "tokens", name)
		_, added := state.Add(t.Context(), name, 1)
		if err := errors.Join(read, added); fault.CodeOf(read) != fault.Internal || fault.CodeOf(added) != fault.Internal ||
			fault.CodeOf(state.Raise(t.Context(), map[string]int64{name: 1})) != fault.Internal {
			t.Errorf("%.10q: %v", name, err)
		}
	}
	if _, err := state.Add(t.Context(), "tokens", -1); fault.CodeOf(err) != fault.Internal {
		t.Errorf("a number that shrinks: %v", err)
	}
	if got, err := state.Read(t.Context()); len(got) != 0 || err != nil {
		t.Errorf("no names: %v, %v", got, err)
	}
}

// A session that is not used is gone after its life, and one that is used is not.
func TestLife(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	short, s := open(t, replica.Options{URL: server.URL(), TTL: time.Second}), open(t, replica.Options{URL: server.URL()})
	unused, _ := begin(t, short, "o")
	begin(t, s, "o") // for long, so that the index is there for long
	for name, use := range map[string]func(owner, id string, state steps.SessionState) error{
		"Session": func(owner, id string, _ steps.SessionState) error {
			_, err := s.Session(t.Context(), id, owner)
			return err
		},
		"Read": func(_, _ string, state steps.SessionState) error { _, err := state.Read(t.Context(), "x"); return err },
		"Add": func(_, _ string, state steps.SessionState) error {
			_, err := state.Add(t.Context(), "x", 1)
			return err
		},
		"Raise": func(_, _ string, state steps.SessionState) error {
			return state.Raise(t.Context(), map[string]int64{"x": 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			owner := "o " + name
			id, state := begin(t, s, owner)
			key, index := s.Keys(id, owner)
			for range 3 {
				if !client.PExpire(t.Context(), key, time.Minute).Val() { // its life is nearly over
					t.Fatal("a session in use is gone")
				}
				if err := use(owner, id, state); err != nil {
					t.Fatalf("a session in use: %v", err)
				}
				if left := client.PTTL(t.Context(), key).Val(); left < replica.DefaultTTL-time.Minute {
					t.Errorf("a session that was used lives for %v", left)
				}
			}
			if n := client.ZCard(t.Context(), index).Val(); n != 1 {
				t.Errorf("%d sessions are counted, want 1", n)
			}
		})
	}
	time.Sleep(time.Second + 100*time.Millisecond)
	begin(t, s, "o") // which has the expired one forgotten, also where there is no bound
	_, index := s.Keys(unused, "o")
	if n := client.ZCard(t.Context(), index).Val(); n != 2 {
		t.Errorf("%d sessions are counted after one of 3 has expired, want 2", n)
	}
	if _, err := s.Session(t.Context(), unused, "o"); fault.CodeOf(err) != fault.TokenExpired {
		t.Errorf("a session that was not used: %v, want token_expired", err)
	}
}

// The life of a session is not extended at each use: that would be a write each time.
func TestSeldomExtended(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	s := open(t, replica.Options{URL: server.URL()})
	id, _ := begin(t, s, "o")
	key, index := s.Keys(id, "o")
	first := client.PExpireTime(t.Context(), key).Val()
	time.Sleep(5 * time.Millisecond)
	find(t, s, id, "o")
	if now := client.PExpireTime(t.Context(), key).Val(); now != first {
		t.Errorf("a use at once extends the life by %v", now-first)
	}
	if err := client.PExpire(t.Context(), key, replica.DefaultTTL-6*time.Second).Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.Del(t.Context(), index).Err(); err != nil { // as a server does that saves memory
		t.Fatal(err)
	}
	find(t, s, id, "o")
	now := client.PExpireTime(t.Context(), key).Val()
	if now <= first {
		t.Errorf("a use after 6 s extends it by %v", now-first)
	}
	if all := client.ZRangeWithScores(t.Context(), index, 0, -1).Val(); len(all) != 1 || int64(all[0].Score) != now.Milliseconds() {
		t.Errorf("the index tells %v, the session expires at %d", all, now.Milliseconds())
	}
	if at := client.PExpireTime(t.Context(), index).Val(); at != now {
		t.Errorf("the index expires at %v, its session at %v", at, now)
	}
}

// Sessions that have expired or that the server has lost are not counted for ever, and those that nobody uses give way.
func TestMost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	s := open(t, replica.Options{URL: server.URL()})
	var ids []string
	for range 3 {
		id, err := s.Begin(t.Context(), "o", 3, 0)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	full := func(when string) {
		t.Helper()
		if _, err := s.Begin(t.Context(), "o", 3, 0); fault.CodeOf(err) != fault.Busy || !strings.Contains(err.Error(), "3 sessions") {
			t.Fatalf("a fourth of 3 %s: %v, want busy", when, err)
		}
	}
	again := func(when string) {
		t.Helper()
		id, err := s.Begin(t.Context(), "o", 3, 0)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		ids = append(ids[1:], id)
		full("after it was begun " + when)
	}
	unusedFor := func(id string, unused time.Duration) {
		t.Helper()
		key, index := s.Keys(id, "o")
		member := key[strings.LastIndex(key, ":")+1:]
		left := replica.DefaultTTL - unused
		at := time.Now().Add(left)
		if left <= 0 {
			client.Del(t.Context(), key)
		} else {
			client.PExpireAt(t.Context(), key, at)
		}
		if n := client.ZAddArgs(t.Context(), index, redis.ZAddArgs{XX: true, Ch: true, Members: []redis.Z{{Score: float64(at.UnixMilli()), Member: member}}}).Val(); n != 1 {
			t.Fatal("the index is not as this test takes it to be")
		}
	}
	full("at once")
	if _, err := s.Begin(t.Context(), "another", 3, 0); err != nil {
		t.Errorf("of another owner: %v", err)
	}
	if err := s.End(t.Context(), ids[0], "o"); err != nil {
		t.Fatal(err)
	}
	again("after one was ended")
	unusedFor(ids[0], replica.DefaultTTL+time.Second)
	again("after one expired")
	lost, _ := s.Keys(ids[0], "o")
	client.Del(t.Context(), lost)
	_, _ = s.Session(t.Context(), ids[0], "o")
	again("after one was found to be lost")
	unusedFor(ids[0], replica.Unused-10*time.Second)
	full("of which one was not used for long")
	unusedFor(ids[0], replica.Unused+10*time.Second)
	unused := ids[0]
	again("after one was not used for longer")
	if _, err := s.Session(t.Context(), unused, "o"); fault.CodeOf(err) != fault.TokenExpired {
		t.Errorf("the one that gave way: %v", err)
	}
	for _, id := range ids {
		find(t, s, id, "o")
	}
	unusedFor(ids[0], replica.Unused+10*time.Second)
	unusedFor(ids[1], replica.Unused+20*time.Second)
	if _, err := s.Begin(t.Context(), "o", 1, 0); fault.CodeOf(err) != fault.Busy { // since the bound was lowered
		t.Errorf("with 3 of at most 1, one of them used: %v, want busy", err)
	}
	find(t, s, ids[1], "o")
	unusedFor(ids[0], replica.Unused+30*time.Second)
	if _, err := s.Begin(t.Context(), "o", 3, 0); err != nil {
		t.Fatal(err)
	}
	find(t, s, ids[1], "o")
	if _, err := s.Session(t.Context(), ids[0], "o"); fault.CodeOf(err) != fault.TokenExpired {
		t.Errorf("the longest unused is still there: %v", err)
	}
}
