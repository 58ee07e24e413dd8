package replica_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/redisclient/redistest"
	"github.com/onecall-mcp/onecall/replica"
	"github.com/onecall-mcp/onecall/steps"
)

// The methods that a server of several replicas asks for.
var _ interface {
	Begin(ctx context.Context, owner string, most, all int) (id string, err error)
	Session(ctx context.Context, id, owner string) (steps.SessionState, error)
	End(ctx context.Context, id, owner string) error
	Take(ctx context.Context, owner string, perSecond float64, burst int) (wait time.Duration, err error)
} = (*replica.Store)(nil)

func open(tb testing.TB, o replica.Options) *replica.Store {
	tb.Helper()
	s, err := replica.New(&o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

func begin(tb testing.TB, s *replica.Store, owner string) (id string, state steps.SessionState) {
	tb.Helper()
	id, err := s.Begin(tb.Context(), owner, 0, 0)
	if err != nil {
		tb.Fatal(err)
	}
	return id, find(tb, s, id, owner)
}

func find(tb testing.TB, s *replica.Store, id, owner string) steps.SessionState {
	tb.Helper()
	state, err := s.Session(tb.Context(), id, owner)
	if err != nil {
		tb.Fatalf("Session: %v", err)
	}
	return state
}

func add(tb testing.TB, state steps.SessionState, name string, n, want int64) {
	tb.Helper()
	if sum, err := state.Add(tb.Context(), name, n); err != nil || sum != want {
		tb.Fatalf("Add(%s, %d): %d, %v, want %d", name, n, sum, err, want)
	}
}

func reads(tb testing.TB, state steps.SessionState, name string, want int64) {
	tb.Helper()
	if got, err := state.Read(tb.Context(), name); err != nil || len(got) != 1 || got[0] != want {
		tb.Fatalf("Read(%s): %v, %v, want %d", name, got, err, want)
	}
}

// operations does one of each kind, on a session that there may be, and gives the errors.
func operations(ctx context.Context, s *replica.Store, state steps.SessionState) map[string]error {
	_, began := s.Begin(ctx, "someone", 0, 0)
	_, found := s.Session(ctx, "any", "someone")
	_, took := s.Take(ctx, "someone", 1000, 1000)
	all := map[string]error{
		"Begin": began, "Session": found, "Take": took, "Ping": s.Ping(ctx), "End": s.End(ctx, "any", "someone"),
	}
	if state != nil {
		_, all["Read"] = state.Read(ctx, "tokens")
		_, all["Add"] = state.Add(ctx, "tokens", 1)
		all["Raise"] = state.Raise(ctx, map[string]int64{"a:b": 1})
	}
	return all
}

// cause is what is wrong with a server, for those who run it.
func cause(err error) string { return fmt.Sprint(errors.Unwrap(err)) }

// unavailable checks that every operation fails with the code, that its cause has the words, and that callers are told neither
// a secret nor an address.
func unavailable(t *testing.T, s *replica.Store, state steps.SessionState, words ...string) {
	t.Helper()
	for name, err := range operations(t.Context(), s, state) {
		if fault.CodeOf(err) != fault.Unavailable {
			t.Errorf("%s: %v, want unavailable", name, err)
			continue
		}
		for _, w := range append(words, "session store") {
			if !strings.Contains(cause(err), w) {
				t.Errorf("%s: %v (%s), want it to name %q", name, err, cause(err), w)
			}
		}
		if text := err.Error(); !strings.Contains(text, "session store") || !strings.Contains(text, "try again") || strings.Contains(text, "127.0.0.1") {
			t.Errorf("%s: callers are told %s", name, text)
		}
		if strings.Contains(fmt.Sprintf("%v %+v %s", err, err, cause(err)), "s3cr3t") {
			t.Errorf("%s tells a secret: %v", name, err)
		}
	}
}

// works checks that every operation is done, but for that there is no session "any".
func works(t *testing.T, s *replica.Store, state steps.SessionState) {
	t.Helper()
	for name, err := range operations(t.Context(), s, state) {
		if err != nil && (name != "Session" || fault.CodeOf(err) != fault.TokenExpired) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Two stores on one server are two replicas: what one begins, changes or ends, the other knows, and the death of one loses
// nothing.
func TestReplicas(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := open(t, replica.Options{URL: server.URL()}), open(t, replica.Options{URL: server.TCP()})
	apart := open(t, replica.Options{URL: server.URL(), Prefix: "apart:"})
	id, state := begin(t, one, "token:ci")
	add(t, state, "tokens", 7, 7)
	there := find(t, other, id, "token:ci")
	reads(t, there, "tokens", 7)
	add(t, there, "tokens", 5, 12)
	reads(t, state, "tokens", 12)
	if err := there.Raise(t.Context(), map[string]int64{"ladder:x:y": 3}); err != nil {
		t.Fatal(err)
	}
	one.Close()
	for name, err := range operations(t.Context(), one, state) {
		if fault.CodeOf(err) != fault.Unavailable {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	reads(t, there, "ladder:x:y", 3)
	if _, err := apart.Session(t.Context(), id, "token:ci"); fault.CodeOf(err) != fault.TokenExpired {
		t.Errorf("under another prefix: %v", err)
	}
	if err := other.End(t.Context(), id, "token:ci"); err != nil {
		t.Fatal(err)
	}
	if left := server.Client(t).Keys(t.Context(), "*").Val(); len(left) != 0 {
		t.Errorf("left on the server: %q", left)
	}
}

// Nothing that is added at the same time, on whichever replica, is lost or counted twice.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	stores := []*replica.Store{open(t, replica.Options{URL: server.URL()}), open(t, replica.Options{URL: server.TCP()})}
	id, state := begin(t, stores[0], "o")
	const users, times = 40, 50
	var all sync.WaitGroup
	for user := range users {
		all.Go(func() {
			own, err := stores[user%2].Session(t.Context(), id, "o")
			for n := range times {
				if err == nil {
					_, err = own.Add(t.Context(), "tokens", 3)
				}
				if err == nil {
					err = own.Raise(t.Context(), map[string]int64{"told": int64(user), fmt.Sprint("f:", user): int64(n + 1)})
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	reads(t, state, "tokens", 3*users*times)
	reads(t, state, "told", users-1)
	for user := range users {
		reads(t, state, fmt.Sprint("f:", user), times)
	}
}

// A session is found by nobody but its owner, and nothing tells a foreign one from none.
func TestOwners(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, replica.Options{URL: server.URL()})
	id, state := begin(t, s, "token:ci")
	add(t, state, "tokens", 1, 1)
	var told []string
	for _, other := range [][2]string{{id, ""}, {id, "token:c"}, {id, "token:ci "}, {id, "jwt:ci"}, {id[1:], "token:ci"}, {id + " ", "token:ci"}, {strings.ToLower(id), "token:ci"},
		{"", "token:ci"}, {"sessions", "token:ci"}, {"}:", "token:ci"}, {strings.Repeat("x", 1<<20), "token:ci"}, {"a\x00\r\n", "\xff"}} {
		_, err := s.Session(t.Context(), other[0], other[1])
		if fault.CodeOf(err) != fault.TokenExpired {
			t.Errorf("session %.40q of %q: %v, want token_expired", other[0], other[1], err)
			continue
		}
		told = append(told, err.Error())
		if err := s.End(t.Context(), other[0], other[1]); err != nil {
			t.Errorf("End of what is not there: %v", err)
		}
	}
	for _, text := range told {
		if text != told[0] {
			t.Errorf("%q and %q tell one from another", text, told[0])
		}
	}
	reads(t, find(t, s, id, "token:ci"), "tokens", 1)
	// Neither ids nor owners stand on the server.
	for _, key := range server.Client(t).Keys(t.Context(), "*").Val() {
		if strings.Contains(key, id) || strings.Contains(key, "ci") && strings.Contains(key, "token") {
			t.Errorf("the key %q can be read", key)
		}
	}
	seen := map[string]bool{}
	for range 200 {
		id, err := s.Begin(t.Context(), "o", 0, 0)
		if err != nil || seen[id] || len(id) < 26 || strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
			t.Fatalf("id %q, %v", id, err)
		}
		seen[id] = true
	}
}

// The numbers of a session that has ended cannot be had or changed, and do not come back.
func TestEnded(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, replica.Options{URL: server.URL()})
	id, state := begin(t, s, "o")
	add(t, state, "tokens", 1, 1)
	for range 2 {
		if err := s.End(t.Context(), id, "o"); err != nil {
			t.Fatal(err)
		}
		for name, err := range operations(t.Context(), s, state) {
			if on := name == "Read" || name == "Add" || name == "Raise"; on && fault.CodeOf(err) != fault.TokenExpired {
				t.Errorf("%s: %v, want token_expired", name, err)
			}
		}
	}
	if _, err := s.Session(t.Context(), id, "o"); fault.CodeOf(err) != fault.TokenExpired {
		t.Errorf("Session: %v, want token_expired", err)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []*replica.Options{
		nil, {}, {URL: "http://onecall:s3cr3t-word@h"}, {URL: "redis://h", Prefix: strings.Repeat("p", 201)}, {URL: "redis://h", Timeout: -1},
		{URL: "redis://h", Timeout: time.Microsecond}, {URL: "redis://h", TTL: -1}, {URL: "redis://h", TTL: time.Millisecond},
	} {
		_, err := replica.New(o)
		if fault.CodeOf(err) != fault.BadRequest || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("New(%+v): %v, want bad_request", o, err)
		}
	}
}
