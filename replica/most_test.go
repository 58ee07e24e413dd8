package replica_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/redisclient"
	"github.com/onecall-mcp/onecall/redisclient/redistest"
	"github.com/onecall-mcp/onecall/replica"
)

// All callers together have no more sessions than may be. Those that nobody uses give way, whose they are.
func TestMostOfAll(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	s := open(t, replica.Options{URL: server.URL()})
	const all = 3
	ids := map[string]string{}
	start := func(owner string, most, all int) error {
		id, err := s.Begin(t.Context(), owner, most, all)
		if err == nil {
			ids[owner] = id
		}
		return err
	}
	for _, owner := range []string{"a", "b", "c"} {
		if err := start(owner, 0, all); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := start("d", 0, all); fault.CodeOf(err) != fault.Busy || !strings.Contains(err.Error(), "3 sessions of all callers") {
			t.Fatalf("a fourth of 3: %v, want busy", err)
		}
	}
	if keys := client.Keys(t.Context(), "*").Val(); len(keys) != 3+3+1 {
		t.Errorf("what was refused has left something: %q", keys)
	}
	// unused makes a session one that was not used for a while.
	unused := func(owner string, since time.Duration) {
		t.Helper()
		key, index := s.Keys(ids[owner], owner)
		in := strings.TrimPrefix(key, replica.DefaultPrefix)
		left := replica.DefaultTTL - since
		client.PExpire(t.Context(), key, left)
		at := float64(time.Now().Add(left).UnixMilli())
		for index, member := range map[string]string{index: in[strings.LastIndex(in, ":")+1:], replica.DefaultPrefix + "sessions": in} {
			if n := client.ZAddArgs(t.Context(), index, redis.ZAddArgs{XX: true, Ch: true, Members: []redis.Z{{Score: at, Member: member}}}).Val(); n != 1 {
				t.Fatal("the index is not as this test takes it to be")
			}
		}
	}
	gone := func(owner string) {
		t.Helper()
		if _, err := s.Session(t.Context(), ids[owner], owner); fault.CodeOf(err) != fault.TokenExpired {
			t.Errorf("the session of %s: %v, want that it gave way", owner, err)
		}
	}
	state := find(t, s, ids["b"], "b")
	if err := state.Raise(t.Context(), map[string]int64{"f:x": 1}); err != nil {
		t.Fatal(err)
	}
	unused("a", replica.Unused+time.Minute)
	unused("b", replica.Unused+2*time.Minute)
	if err := start("d", 0, all); err != nil {
		t.Fatal(err)
	}
	key, _ := s.Keys(ids["b"], "b")
	if left := client.Exists(t.Context(), key, key+":0", key+":1").Val(); left != 0 {
		t.Errorf("%d keys are left of what gave way", left)
	}
	gone("b")
	find(t, s, ids["a"], "a") // which is a use of it
	if err := start("e", 0, all); fault.CodeOf(err) != fault.Busy {
		t.Errorf("none is unused: %v, want busy", err)
	}
	// One that gives way to its owner's makes room for all, and is counted once.
	unused("a", replica.Unused+time.Minute)
	if err := start("a", 1, all); err != nil {
		t.Fatal(err)
	}
	unused("a", replica.Unused+2*time.Minute)
	unused("c", replica.Unused+time.Minute)
	if err := start("a", 1, all-1); err != nil { // a lower bound of all: two go
		t.Fatal(err)
	}
	gone("c")
	if n := client.ZCard(t.Context(), replica.DefaultPrefix+"sessions").Val(); n != 2 {
		t.Errorf("%d sessions are counted, want 2", n)
	}
	for _, owner := range []string{"a", "d"} {
		if err := s.End(t.Context(), ids[owner], owner); err != nil {
			t.Fatal(err)
		}
	}
	if keys := client.Keys(t.Context(), "*").Val(); len(keys) != 0 {
		t.Errorf("left on the server: %q", keys)
	}
}

// Where the bounds were lowered by very many, sessions go in parts.
func TestManyGiveWay(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	s := open(t, replica.Options{URL: server.URL()})
	for i := range 1500 {
		if _, err := s.Begin(t.Context(), fmt.Sprint("o", i), 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	index := replica.DefaultPrefix + "sessions"
	members := client.ZRange(t.Context(), index, 0, -1).Val()
	for _, member := range members {
		client.ZAdd(t.Context(), index, redis.Z{Score: float64(time.Now().Add(replica.DefaultTTL - 2*replica.Unused).UnixMilli()), Member: member})
	}
	for _, want := range []int64{501, 10, 10} {
		if _, err := s.Begin(t.Context(), "new", 0, 10); err != nil {
			if want == 501 {
				t.Fatal(err)
			}
		}
		if n := client.ZCard(t.Context(), index).Val(); n != want {
			t.Fatalf("%d sessions, want %d", n, want)
		}
	}
}

// An index lives as long as the last of its sessions, whichever was used last.
func TestIndexLives(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	long, short := open(t, replica.Options{URL: server.URL(), TTL: time.Hour}), open(t, replica.Options{URL: server.URL(), TTL: time.Minute})
	id, _ := begin(t, long, "o")
	other, _ := begin(t, short, "o")
	find(t, short, other, "o")
	_, index := long.Keys(id, "o")
	for _, one := range []string{index, replica.DefaultPrefix + "sessions"} {
		if left := client.PTTL(t.Context(), one).Val(); left < 59*time.Minute {
			t.Errorf("%s lives for %v", one, left)
		}
	}
}

// All of a session lives on with it.
func TestAllLivesOn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	s := open(t, replica.Options{URL: server.URL()})
	id, state := begin(t, s, "o")
	raise(t, state, 0, replica.MaxFamily)
	raise(t, state, replica.MaxFamily, replica.MaxFamily+1)
	key, _ := s.Keys(id, "o")
	keys := []string{key, key + ":0", key + ":1"}
	for _, one := range keys {
		if !client.PExpire(t.Context(), one, time.Minute).Val() {
			t.Fatalf("there is no %s", one)
		}
	}
	find(t, s, id, "o")
	for _, one := range keys {
		if left := client.PTTL(t.Context(), one).Val(); left < 29*time.Minute {
			t.Errorf("%s lives for %v", one, left)
		}
	}
}

// What a client's error is to a caller: only a client that was closed makes the store one that is closed.
func TestCoded(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]fault.Code{
		nil: "", redisclient.ErrClosed: fault.Unavailable, context.Canceled: fault.Cancelled, context.DeadlineExceeded: fault.Timeout,
		redis.Nil: fault.Internal, errors.New("new"): fault.Internal, fault.New(fault.Busy, "own"): fault.Busy,
	} {
		coded := replica.Coded(err)
		if fault.CodeOf(coded) != want || (err != nil && strings.Contains(coded.Error(), "closed")) != errors.Is(err, redisclient.ErrClosed) {
			t.Errorf("%v: %v, want %s", err, coded, want)
		}
	}
}

// A server that answers nothing where there always is something does not answer as Redis does, and is not a closed store.
func TestNothing(t *testing.T) {
	t.Parallel()
	nothing := redistest.NewProxy(t, func(c net.Conn) {
		buffer := make([]byte, 1<<16)
		for {
			if _, err := c.Read(buffer); err != nil {
				return
			}
			if _, err := io.WriteString(c, "$-1\r\n"); err != nil {
				return
			}
		}
	})
	s := open(t, replica.Options{URL: "redis://" + nothing.Address()})
	for name, err := range operations(t.Context(), s, nil) {
		if fault.CodeOf(err) != fault.Unavailable || !strings.Contains(cause(err), "does not answer as Redis does") {
			t.Errorf("%s: %v (%s)", name, err, cause(err))
		}
	}
}
