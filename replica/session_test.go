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
	s := open(t, replica.Options{URL: server.URL(), TTL: time.Second})
	unused, _ := begin(t, s, "o")
	begin(t, open(t, replica.Options{URL: server.URL()}), "o") // for long, so that the index is there for long
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
			for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				if err := use(owner, id, state); err != nil {
					t.Fatalf("a session in use: %v", err)
				}
			}
			_, index := s.Keys(id, owner)
			if n := server.Client(t).ZCard(t.Context(), index).Val(); n != 1 {
				t.Errorf("%d sessions are counted, want 1", n)
			}
		})
	}
	time.Sleep(time.Second + 100*time.Millisecond)
	begin(t, s, "o") // which has the expired one forgotten, also where there is no bound
	_, index := s.Keys(unused, "o")
	if n := server.Client(t).ZCard(t.Context(), index).Val(); n != 2 {
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

// Of more names than a session keeps, those go that were not written for longest, and never one without a colon.
func TestNames(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	s := open(t, replica.Options{URL: server.URL()})
	id, state := begin(t, s, "o")
	for i := range replica.MaxPlain {
		add(t, state, fmt.Sprint("plain", i), 1, 1)
	}
	for range 2 {
		if _, err := state.Add(t.Context(), "one more", 1); fault.CodeOf(err) != fault.LimitExceeded {
			t.Fatalf("one plain name more: %v, want limit_exceeded", err)
		}
		if err := state.Raise(t.Context(), map[string]int64{"one more": 1, "plain1": 5}); fault.CodeOf(err) != fault.LimitExceeded {
			t.Fatalf("one plain name more: %v, want limit_exceeded", err)
		}
	}
	reads(t, state, "plain1", 1)
	const most = replica.MaxFamily
	raise(t, state, 0, most-1)
	raise(t, state, most-1, 2*most-1) // of which the first fills one hash, and the others make it the older one
	if n := kept(t, state, 0, 2*most-1); n != 2*most-1 {
		t.Fatalf("%d are kept", n)
	}
	raise(t, state, 0, 100) // once more, though they do not grow
	raise(t, state, 2*most, 3*most)
	for _, part := range []struct{ from, to, want int }{{0, 100, 100}, {100, most - 1, 0}, {2 * most, 3 * most, most}} {
		if n := kept(t, state, part.from, part.to); n != part.want {
			t.Errorf("%d to %d: %d are kept, want %d", part.from, part.to, n, part.want)
		}
	}
	for round := range 5 {
		raise(t, state, 3*most+round*7000, 3*most+round*7000+7000) // in one call, in several scripts
		if n := kept(t, state, 3*most+round*7000, 3*most+round*7000+7000); n < most {
			t.Errorf("%d are kept of the last 7000", n)
		}
	}
	for i := range replica.MaxPlain {
		reads(t, state, fmt.Sprint("plain", i), 1)
	}
	key, _ := s.Keys(id, "o")
	fields, bytes := int64(0), int64(0)
	for _, one := range []string{key, key + ":0", key + ":1"} {
		fields += client.HLen(t.Context(), one).Val()
		bytes += client.MemoryUsage(t.Context(), one).Val()
		if left := client.PTTL(t.Context(), one).Val(); left < 29*time.Minute {
			t.Errorf("%s lives for %v", one, left)
		}
	}
	if fields > 2*(most+1000)+replica.MaxPlain+2 || bytes > 2<<20 {
		t.Errorf("the session has %d fields and %d bytes", fields, bytes)
	}
}

// raise raises the number of each of a range of names to what only that name has.
func raise(t *testing.T, state steps.SessionState, from, to int) {
	t.Helper()
	values := map[string]int64{}
	for i := from; i < to; i++ {
		values[fmt.Sprint("f:", i)] = int64(i + 1)
	}
	if err := state.Raise(t.Context(), values); err != nil {
		t.Fatal(err)
	}
}

// kept counts the names of a range whose numbers are kept.
func kept(t *testing.T, state steps.SessionState, from, to int) (n int) {
	t.Helper()
	var names []string
	for i := from; i < to; i++ {
		names = append(names, fmt.Sprint("f:", i))
	}
	got, err := state.Read(t.Context(), names...)
	if err != nil {
		t.Fatal(err)
	}
	for i, value := range got {
		if value == int64(from+i+1) {
			n++
		} else if value != 0 {
			t.Fatalf("%s is %d", names[i], value)
		}
	}
	return n
}

// A number that does not grow is not written again: what a caller repeats costs the server a look.
func TestNotWrittenAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	s := open(t, replica.Options{URL: server.URL()})
	_, state := begin(t, s, "o")
	raise(t, state, 0, 50)
	add(t, state, "plain", 5, 5)
	dirty := func() string {
		for line := range strings.Lines(client.Info(t.Context(), "persistence").Val()) {
			if changes, is := strings.CutPrefix(line, "rdb_changes_since_last_save:"); is {
				return changes
			}
		}
		return "none"
	}
	before := dirty()
	raise(t, state, 0, 50)
	if err := state.Raise(t.Context(), map[string]int64{"plain": 3, "f:7": 2}); err != nil {
		t.Fatal(err)
	}
	reads(t, state, "f:7", 8)
	if after := dirty(); after != before {
		t.Errorf("%s changes, before %s", after, before)
	}
	raise(t, state, 50, 51)
	if after := dirty(); after == before {
		t.Error("the test sees no changes")
	}
}
