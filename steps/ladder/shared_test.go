package ladder

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/redisclient/redistest"
	"github.com/onecall-mcp/onecall/replica"
	"github.com/onecall-mcp/onecall/steps"
)

// state is what replicas share of a session, without a server.
type state struct {
	mu           sync.Mutex
	numbers      map[string]int64
	reads, raise [][]string // the names of each
	fail         error
}

func (s *state) Read(_ context.Context, names ...string) ([]int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads = append(s.reads, names)
	var numbers []int64
	for _, name := range names {
		numbers = append(numbers, s.numbers[name])
	}
	return numbers, s.fail
}

func (s *state) Add(context.Context, string, int64) (int64, error) {
	return 0, errors.New("never used")
}

func (s *state) Raise(_ context.Context, values map[string]int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	var names []string
	for name, value := range values {
		if s.numbers == nil {
			s.numbers = map[string]int64{}
		}
		names = append(names, name)
		s.numbers[name] = max(s.numbers[name], value)
	}
	s.raise = append(s.raise, names)
	return nil
}

func sharing(t testing.TB, s steps.SessionState) context.Context {
	return steps.WithSession(t.Context(), steps.NewSession(s))
}

// What was called at one replica counts at another; one round trip finds out, and one takes note.
func TestShared(t *testing.T) {
	t.Parallel()
	s := &state{}
	replicas := []*steps.Registry{
		newLadder(t, Options{Mode: Enforce}).Wrap((&world{}).registry(t)),
		newLadder(t, Options{Mode: Enforce}).Wrap((&world{}).registry(t)),
	}
	for i, step := range []struct {
		replica  int
		fn, args string
		refused  bool
		trips    string // how many names were read and raised
	}{
		{0, code[2], `{"symbolId":"a"}`, true, "[1] []"},
		{0, code[1], `{"symbolId":["a","b","a"]}`, false, "[] [2]"}, // rung 1 is never refused
		{1, code[2], `{"symbolId":["a","b","b"]}`, false, "[2] [2]"},
		{1, code[2], `{"symbolId":["a","c"]}`, true, "[2] []"},
		{0, code[4], `{"symbolId":"b"}`, false, "[1] [1]"},
		{1, code[4], `{}`, false, "[] []"},
		{1, code[0], `{"query":[{"symbolId":"d"},{"symbolId":"d"},{"symbolId":"e"}]}`, false, "[] [2]"},
		{0, code[2], `{"symbolId":"e"}`, false, "[1] [1]"},
	} {
		s.reads, s.raise = nil, nil
		f := call(sharing(t, s), t, replicas[step.replica], step.fn, step.args)
		if (f != nil) != step.refused || f != nil && f.Code != fault.Denied {
			t.Errorf("call %d: %v", i, f)
		}
		count := func(names [][]string) (list []int) {
			for _, some := range names {
				list = append(list, len(some))
			}
			return list
		}
		if trips := fmt.Sprint(count(s.reads), count(s.raise)); trips != step.trips {
			t.Errorf("call %d took %s, want %s", i, trips, step.trips)
		}
	}
	for name := range s.numbers {
		if len(name) > 200 || !strings.HasPrefix(name, "ladder:") {
			t.Errorf("a number's name is %q", name)
		}
	}
	other := newLadder(t, Options{Mode: Enforce, Rungs: []string{code[0], code[2], code[1], code[3], code[4]}}).Wrap((&world{}).registry(t))
	if f := call(sharing(t, s), t, other, code[4], `{"symbolId":"b"}`); f == nil {
		t.Error("another ladder goes on with what was reached on this one")
	}
}

// No call reads or notes more subjects than the ladder remembers; those beyond count as never called.
func TestSharedBound(t *testing.T) {
	t.Parallel()
	s := &state{}
	r := newLadder(t, Options{Mode: Enforce, MaxSubjects: 3}).Wrap((&world{}).registry(t))
	many := `{"symbolId":[1,2,3,1,4,5]}`
	if f := call(sharing(t, s), t, r, code[1], many); f != nil {
		t.Fatal(f)
	}
	f := call(sharing(t, s), t, r, code[2], many)
	if f == nil || f.Code != fault.Denied || f.At != "/symbolId/4" {
		t.Errorf("%v", f)
	}
	if f := call(sharing(t, s), t, r, code[2], `{"symbolId":[1,2,3,2,1]}`); f != nil {
		t.Error(f)
	}
	if len(s.reads) != 2 || len(s.reads[0]) != 3 || len(s.raise[0]) != 3 || len(s.numbers) != 3 {
		t.Errorf("read %v, raised %v", s.reads, s.raise)
	}
}

// Of one result only so many subjects are noted, the first of them.
func TestSharedResult(t *testing.T) {
	t.Parallel()
	s := &state{}
	r := newLadder(t, Options{Mode: Enforce}).Wrap((&world{}).registry(t))
	var many []string
	for i := range maxFound + 1 {
		many = append(many, fmt.Sprintf(`{"symbolId":"many%d"}`, i))
	}
	if f := call(sharing(t, s), t, r, code[0], `{"query":[`+strings.Join(many, ",")+`]}`); f != nil {
		t.Fatal(f)
	}
	if len(s.numbers) != maxFound {
		t.Errorf("%d subjects are noted, want %d", len(s.numbers), maxFound)
	}
	for i, want := range map[int]fault.Code{0: "", maxFound - 1: "", maxFound: fault.Denied} {
		var err error
		if f := call(sharing(t, s), t, r, code[2], fmt.Sprintf(`{"symbolId":"many%d"}`, i)); f != nil {
			err = f
		}
		if fault.CodeOf(err) != want {
			t.Errorf("the subject %d: %v, want %q", i, err, want)
		}
	}
}

// Two ladders whose names say the same when they are put together are two.
func TestIdentity(t *testing.T) {
	t.Parallel()
	seen := map[string][]string{}
	for _, names := range [][]string{{"id", "ab", "c"}, {"id", "a", "bc"}, {"id", "abc"}, {"ida", "b", "c"}, {"id", "c", "ab"}} {
		id := identity(names)
		if before, twice := seen[id]; twice {
			t.Errorf("%q and %q are one", before, names)
		}
		seen[id] = names
	}
}

// Where it cannot be known what was called before, an enforced ladder refuses what may skip too much, and nothing else.
func TestSharedAway(t *testing.T) {
	t.Parallel()
	away := fault.New(fault.Unavailable, "The store at 10.0.0.7:6379 is away; try again.")
	for _, mode := range []Mode{Warn, Enforce} {
		s := &state{fail: away}
		w := &world{}
		r := newLadder(t, Options{Mode: mode}).Wrap(w.registry(t))
		ctx := steps.WithAttendant(sharing(t, s), &steps.Attendant{Warn: func(f *fault.Error) { t.Errorf("warned: %v", f) }})
		for i, name := range code {
			f := call(ctx, t, r, name, `{"symbolId":"a"}`)
			switch refused := mode == Enforce && i > 1; {
			case !refused && f != nil:
				t.Errorf("%s: %s: %v", mode, name, f)
			case refused && (f == nil || f.Code != fault.Unavailable || !errors.Is(f, away) || !strings.Contains(f.Message, name+" is not called") ||
				!strings.Contains(f.Message, "symbolId") || !strings.HasSuffix(f.Message, "try again in a few seconds") || strings.Contains(f.Message, "10.0.0.7")):
				t.Errorf("%s: %s: %v", mode, name, f)
			}
		}
		if want := map[Mode]int64{Warn: 5, Enforce: 2}[mode]; w.calls.Load() != want {
			t.Errorf("%s: %d calls, want %d", mode, w.calls.Load(), want)
		}
		if f := call(ctx, t, r, code[4], `{}`); f != nil { // it names no subject
			t.Error(f)
		}
		s.fail = fault.New(fault.TokenExpired, "gone")
		if f := call(ctx, t, r, code[4], `{"symbolId":"a"}`); mode == Enforce && (f == nil || !strings.Contains(f.Message, "the session has ended")) {
			t.Errorf("%s: of a session that has ended: %v", mode, f)
		}
	}
}

// Two replicas on a real server, which is killed.
func TestReplicas(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var contexts []context.Context
	var id string
	for i := range 2 {
		store, err := replica.New(&replica.Options{URL: server.TCP()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(store.Close)
		if i == 0 {
			if id, err = store.Begin(t.Context(), "o", 0, 0); err != nil {
				t.Fatal(err)
			}
		}
		s, err := store.Session(t.Context(), id, "o")
		if err != nil {
			t.Fatal(err)
		}
		contexts = append(contexts, sharing(t, s))
	}
	r := newLadder(t, Options{Mode: Enforce}).Wrap((&world{}).registry(t))
	if f := call(contexts[0], t, r, code[2], `{"symbolId":"a"}`); f == nil || f.Code != fault.Denied {
		t.Errorf("before the card: %v", f)
	}
	if f := call(contexts[0], t, r, code[1], `{"symbolId":"a"}`); f != nil {
		t.Fatal(f)
	}
	if f := call(contexts[1], t, r, code[2], `{"symbolId":"a"}`); f != nil {
		t.Errorf("after the card at the other replica: %v", f)
	}
	var many []string
	for i := range 3000 {
		many = append(many, fmt.Sprintf(`{"symbolId":"many%d"}`, i))
	}
	if f := call(contexts[0], t, r, code[0], `{"query":[`+strings.Join(many, ",")+`]}`); f != nil {
		t.Fatal(f)
	}
	if f := call(contexts[1], t, r, code[2], `{"symbolId":["many0","many499"]}`); f != nil {
		t.Errorf("after a search that found many: %v", f)
	}
	server.Kill()
	if f := call(contexts[1], t, r, code[2], `{"symbolId":"a"}`); f == nil || f.Code != fault.Unavailable || strings.Contains(f.Message, server.Address()) {
		t.Errorf("without the server: %v", f)
	}
	if f := call(contexts[1], t, r, code[1], `{"symbolId":"a"}`); f != nil {
		t.Errorf("a cheap one without the server: %v", f)
	}
}
