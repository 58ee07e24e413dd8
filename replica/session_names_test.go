package replica_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/redisclient/redistest"
	"github.com/onecall-mcp/onecall/replica"
	"github.com/onecall-mcp/onecall/steps"
)

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
