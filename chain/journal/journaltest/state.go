package journaltest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// changed returns a write of the run run_a that changes the value of a name in a space of an owner; value "" removes it. seen gets what it
// found.
func changed(first int, key journal.StateKey, value string, ttl time.Duration, seen *journal.StateView) journal.Write {
	return journal.Write{ID: "run_a", Lease: 1, State: &journal.StateWrite{StateKey: key,
		Decide: func(at *journal.StateView, w *journal.Write) journal.StateResult {
			*seen = *at
			w.Segment = segment(1, first)
			if value == "" {
				return journal.StateResult{Remove: true}
			}
			return journal.StateResult{Row: &journal.StateRow{Version: at.Next, Expires: at.Now.Add(ttl), Size: len(value), Sealed: []byte(value)}}
		}}}
}

// names returns the spaces, names, versions and values of an owner's values that a filter selects.
func names(t *testing.T, d journal.Driver, f *journal.StateFilter) (list []string) {
	t.Helper()
	rows, err := d.States(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		list = append(list, fmt.Sprintf("%s/%s=%s (%d)", r.Space, r.Name, r.Sealed, r.Version))
	}
	return list
}

// state: a change finds what the one before it left, gets the next version of its owner, and its segment is written with it.
func state(t *testing.T, s Store) {
	d := s.Open(t)
	write(t, d, newRun("run_a"))
	var seen journal.StateView
	key := journal.StateKey{Owner: "ann", Space: "s", Name: "k"}
	for i, value := range []string{"first", "a second value", "", "third"} {
		before := seen
		write(t, d, changed(10*(i+1), key, value, time.Hour, &seen))
		if seen.Next <= before.Next || seen.Size != 0 {
			t.Errorf("change %d gets version %d after %d, and other values count %d bytes, want 0", i, seen.Next, before.Next, seen.Size)
		}
		left := []string{"", "first", "a second value", ""}[i] // by the change before
		if there := seen.Row != nil; there != (left != "") || there && (string(seen.Row.Sealed) != left || seen.Row.Version != before.Next ||
			seen.Row.Expires.Sub(before.Now).Round(time.Millisecond) != time.Hour) {
			t.Errorf("change %d finds %+v", i, seen.Row)
		}
	}
	if got := load(t, d, "run_a"); len(got.Segments) != 5 || got.Written != 5 || got.Segments[4].First != 40 {
		t.Errorf("the run has %d segments and counts %d, want 5", len(got.Segments), got.Written)
	}
	last := seen.Next
	write(t, d, changed(50, journal.StateKey{Owner: "ann", Space: "t", Name: "K\x00ö%_"}, "12345", time.Hour, &seen))
	if seen.Size != 5 || seen.Next <= last {
		t.Errorf("other values count %d bytes, want those of the third: 5", seen.Size)
	}
	write(t, d, changed(60, journal.StateKey{Owner: "bob", Space: "s", Name: "k"}, "his", time.Hour, &seen))
	if seen.Row != nil || seen.Size != 0 {
		t.Errorf("another owner's change finds %+v", seen)
	}
	third := fmt.Sprintf("s/k=third (%d)", last)
	for name, test := range map[string]struct {
		filter journal.StateFilter
		want   int
		first  string
	}{
		"a name":          {journal.StateFilter{Owner: "ann", Space: "s", Names: []string{"k", "none", "k"}, Values: true}, 1, third},
		"no name":         {journal.StateFilter{Owner: "ann", Space: "s", Names: []string{}}, 0, ""},
		"a prefix":        {journal.StateFilter{Owner: "ann", Space: "s", Prefix: "k", Values: true}, 1, third},
		"another prefix":  {journal.StateFilter{Owner: "ann", Space: "s", Prefix: "K"}, 0, ""},
		"all spaces":      {journal.StateFilter{Owner: "ann", AnySpace: true, Values: true}, 2, third},
		"a page":          {journal.StateFilter{Owner: "ann", AnySpace: true, Values: true, Limit: 1}, 1, third},
		"past the end":    {journal.StateFilter{Owner: "ann", AnySpace: true, Offset: 2}, 0, ""},
		"without a value": {journal.StateFilter{Owner: "bob", Space: "s"}, 1, fmt.Sprintf("s/k= (%d)", seen.Next)},
	} {
		list := names(t, d, &test.filter)
		if len(list) != test.want || test.want > 0 && list[0] != test.first {
			t.Errorf("%s: %q, want %d, first %q", name, list, test.want, test.first)
		}
	}
	d.Close()
	if s.Shared {
		if list := names(t, s.Open(t), &journal.StateFilter{Owner: "ann", Space: "s", Values: true}); !slices.Equal(list, []string{third}) {
			t.Errorf("another driver finds %q, want %q", list, third)
		}
	}
}

// stateRefused: a write that is refused changes no state, and counts no bytes.
func stateRefused(t *testing.T, s Store) {
	d := s.Open(t)
	write(t, d, newRun("run_a"))
	var seen journal.StateView
	key := journal.StateKey{Owner: "ann", Space: "s", Name: "k"}
	write(t, d, changed(10, key, "kept", time.Hour, &seen))
	for _, value := range []string{"lost", ""} {
		late := changed(20, key, value, time.Hour, &seen)
		late.Lease = 2
		if refused, err := d.Write(t.Context(), []journal.Write{late, newRun("run_" + value)}); err != nil || !refused[0] || refused[1] {
			t.Errorf("refused %v, error %v, want the first to be refused", refused, err)
		}
	}
	if list := names(t, d, &journal.StateFilter{Owner: "ann", Space: "s", Values: true}); len(list) != 1 || list[0][:8] != "s/k=kept" {
		t.Errorf("after refused changes there is %q", list)
	}
	write(t, d, changed(20, journal.StateKey{Owner: "ann", Space: "s", Name: "other"}, "x", time.Hour, &seen))
	if seen.Size != 4 {
		t.Errorf("the owner's values count %d bytes, want 4", seen.Size)
	}
}

// stateExpires: a value that has expired is not there, and is removed by Expire, with what it counts. Versions go on.
func stateExpires(t *testing.T, s Store) {
	d := s.Open(t)
	write(t, d, newRun("run_a"))
	var seen journal.StateView
	gone, stays := journal.StateKey{Owner: "ann", Space: "s", Name: "gone"}, journal.StateKey{Owner: "ann", Space: "s", Name: "stays"}
	write(t, d, changed(10, gone, "value", -time.Second, &seen))
	write(t, d, changed(20, stays, "12", time.Hour, &seen))
	if seen.Size != 5 {
		t.Errorf("what has expired counts %d bytes until it is removed, want 5", seen.Size)
	}
	last := seen.Next
	if list := names(t, d, &journal.StateFilter{Owner: "ann", Space: "s"}); len(list) != 1 || list[0][:7] != "s/stays" {
		t.Errorf("there is %q, want what has not expired", list)
	}
	write(t, d, changed(30, gone, "v", -time.Second, &seen))
	if seen.Row != nil || seen.Size != 2 {
		t.Errorf("the change finds %+v, want nothing of the name and 2 bytes of the other", seen)
	}
	for range 2 {
		if err := d.Expire(t.Context(), start, start); err != nil {
			t.Fatal(err)
		}
	}
	write(t, d, changed(40, gone, "new", time.Hour, &seen))
	if seen.Size != 2 || seen.Next <= last {
		t.Errorf("after the removal others count %d bytes, want 2; version %d after %d", seen.Size, seen.Next, last)
	}
}

// stateOfMany: changes of several processes are made one after another.
func stateOfMany(t *testing.T, s Store) {
	const processes, changes = 4, 10
	drivers := []journal.Driver{s.Open(t)}
	for len(drivers) < processes && s.Shared {
		drivers = append(drivers, s.Open(t))
	}
	key := journal.StateKey{Owner: "ann", Space: "s", Name: "k"}
	var wait sync.WaitGroup
	for i, d := range drivers {
		run := fmt.Sprint("run_", i)
		write(t, d, newRun(run))
		wait.Go(func() {
			for n := range changes {
				w := journal.Write{ID: run, Lease: 1, State: &journal.StateWrite{StateKey: key,
					Decide: func(at *journal.StateView, w *journal.Write) journal.StateResult {
						w.Segment = segment(1, 10*(n+1))
						before := ""
						if at.Row != nil {
							before = string(at.Row.Sealed)
						}
						return journal.StateResult{Row: &journal.StateRow{Version: at.Next, Expires: at.Now.Add(time.Hour),
							Sealed: []byte(before + "x"), Size: len(before) + 1}}
					}}}
				if refused, err := d.Write(t.Context(), []journal.Write{w}); err != nil || refused[0] {
					t.Errorf("refused %v, error %v", refused, err)
				}
			}
		})
	}
	wait.Wait()
	rows, err := drivers[0].States(t.Context(), &journal.StateFilter{Owner: "ann", Space: "s", Values: true})
	if err != nil || len(rows) != 1 || len(rows[0].Sealed) != len(drivers)*changes {
		t.Errorf("%d changes left %+v, error %v", len(drivers)*changes, rows, err)
	}
}

// stateRemoved: the values of some spaces of an owner are removed with what they count, those of others stay, and versions go on.
func stateRemoved(t *testing.T, s Store) {
	d := s.Open(t)
	write(t, d, newRun("run_a"))
	var seen journal.StateView
	gone := journal.StateKey{Owner: "ann", Space: "session \x00ö", Name: "k"}
	for i, key := range []journal.StateKey{gone, {Owner: "ann", Space: "lock " + gone.Space, Name: "k"}, {Owner: "ann", Space: "s", Name: "k"},
		{Owner: "bob", Space: gone.Space, Name: "k"}} {
		write(t, d, changed(10*(i+1), key, "12345", time.Hour, &seen))
	}
	for range 2 {
		if err := d.RemoveStates(t.Context(), "ann", []string{gone.Space, "lock " + gone.Space, "none"}); err != nil {
			t.Fatal(err)
		}
	}
	ann := names(t, d, &journal.StateFilter{Owner: "ann", AnySpace: true})
	bob := names(t, d, &journal.StateFilter{Owner: "bob", AnySpace: true})
	if len(ann) != 1 || ann[0] != "s/k= (3)" || len(bob) != 1 {
		t.Errorf("there are %q of ann and %q of bob, want one of each", ann, bob)
	}
	write(t, d, changed(50, gone, "new", time.Hour, &seen))
	if seen.Row != nil || seen.Size != 5 || seen.Next != 4 {
		t.Errorf("after the removal a change finds %+v, want 5 bytes of others, and version 4", seen)
	}
}

// stateKept: a value of no run counts nothing, replaces the one that is there unless it must not, and ends by itself.
func stateKept(t *testing.T, s Store) {
	d := s.Open(t)
	key := journal.StateKey{Owner: "logins ann", Space: "hub ö", Name: "login"}
	keep := func(value string, ttl time.Duration, absent bool) (kept bool) {
		t.Helper()
		kept, err := d.KeepState(t.Context(), &journal.StateRow{StateKey: key, Sealed: []byte(value)}, ttl, absent)
		if err != nil {
			t.Fatal(err)
		}
		return kept
	}
	for i, test := range []struct {
		value        string
		ttl          time.Duration
		absent, kept bool
		want         string
	}{
		{"gone", -time.Second, true, true, ""},
		{"first", time.Hour, true, true, "first"},
		{"second", time.Hour, true, false, "first"},
		{"third", time.Hour, false, true, "third"},
		{"over", -time.Second, false, true, ""},
		{"again", time.Hour, true, true, "again"},
	} {
		if kept := keep(test.value, test.ttl, test.absent); kept != test.kept {
			t.Errorf("%d: it kept %q: %t, want %t", i, test.value, kept, test.kept)
		}
		rows, err := d.States(t.Context(), &journal.StateFilter{Owner: key.Owner, AnySpace: true, Values: true})
		got := ""
		for _, row := range rows {
			got += string(row.Sealed)
			if row.Version != 0 || row.Size != 0 || row.StateKey != key {
				t.Errorf("%d: there is %+v, want version 0 and no size", i, row)
			}
		}
		if err != nil || got != test.want {
			t.Errorf("%d: there is %q, %v, want %q", i, got, err, test.want)
		}
	}
	if err := d.RemoveStates(t.Context(), key.Owner, []string{key.Space}); err != nil {
		t.Fatal(err)
	}
	if rows, err := d.States(t.Context(), &journal.StateFilter{Owner: key.Owner, AnySpace: true}); err != nil || len(rows) > 0 {
		t.Errorf("after the removal there is %+v, %v", rows, err)
	}
}

// stateMarked: a marked name is listed without a value, counts nothing, and is kept for the longest time that was asked for.
func stateMarked(t *testing.T, s Store) {
	d := s.Open(t)
	write(t, d, newRun("run_a"))
	key := journal.StateKey{Owner: "ann", Space: "marks", Name: "a ö"}
	for _, ttl := range []time.Duration{time.Hour, 3 * time.Hour, time.Second} {
		if err := d.MarkState(t.Context(), key, ttl); err != nil {
			t.Fatal(err)
		}
	}
	gone := key
	gone.Name = "gone"
	if err := d.MarkState(t.Context(), gone, -time.Second); err != nil {
		t.Fatal(err)
	}
	rows, err := d.States(t.Context(), &journal.StateFilter{Owner: "ann", Space: "marks"})
	if err != nil || len(rows) != 1 || rows[0].Name != key.Name || rows[0].Size != 0 {
		t.Fatalf("there is %+v, %v, want the name that has not expired", rows, err)
	}
	var seen journal.StateView
	write(t, d, changed(10, journal.StateKey{Owner: "ann", Space: "s", Name: "k"}, "12345", time.Hour, &seen))
	if left := rows[0].Expires.Sub(seen.Now); left < 2*time.Hour || left > 3*time.Hour {
		t.Errorf("it is kept for %v, want three hours", left)
	}
	if seen.Size != 0 {
		t.Errorf("marks count %d bytes", seen.Size)
	}
	for range 2 {
		if err := d.Expire(t.Context(), start, start); err != nil {
			t.Fatal(err)
		}
	}
	if rows, err := d.States(t.Context(), &journal.StateFilter{Owner: "ann", AnySpace: true}); err != nil || len(rows) != 2 {
		t.Errorf("after what has expired was removed there is %+v, %v", rows, err)
	}
}
