package journaltest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// listed returns the ids of the runs that match a filter, without what all begin with.
func listed(t *testing.T, d journal.Driver, f journal.Filter) (ids string, last *journal.Position) {
	t.Helper()
	rows, err := d.List(t.Context(), &f)
	if err != nil {
		t.Error(err)
	}
	list := make([]string, len(rows))
	for i := range rows {
		list[i], last = strings.TrimPrefix(rows[i].ID, "run_"), rows[i].Position()
	}
	return strings.Join(list, " "), last
}

// pages: a list goes on after a position, whatever has begun, ended or expired since, also among runs that began at one instant.
func pages(t *testing.T, s Store) {
	d := s.Open(t)
	add := func(id string, began time.Duration, expires time.Duration) {
		w := newRun("run_" + id)
		w.Row.Began, w.Row.Expires, w.Release = start.Add(began), start.Add(expires), true
		write(t, d, w)
	}
	for i, id := range []string{"a", "b", "c", "d", "e"} {
		add(id, time.Duration(i/3)*time.Second, time.Duration(5-i)*time.Hour) // a, b and c at one instant, d and e at another
	}
	add("z", -time.Second, time.Minute) // older than all, although it is written last
	for _, f := range []journal.Filter{{}, {Function: "fs.read"}, {Status: journal.Interrupted}, {Function: "fs.read", NotOK: true}} {
		f.Limit = 2
		first, after := listed(t, d, f)
		f.Before = after
		second, _ := listed(t, d, f)
		if first != "e d" || second != "c b" {
			t.Errorf("%+v: the pages are %q and %q, want e d and c b", f, first, second)
		}
	}
	_, after := listed(t, d, journal.Filter{Limit: 4})
	add("f", 2*time.Second, time.Hour)
	add("y", time.Second/2, time.Hour)
	if rest, _ := listed(t, d, journal.Filter{Before: after}); rest != "a z" {
		t.Errorf("after b the list goes on with %q, want a z, whatever has begun since", rest)
	}
	if rest, _ := listed(t, d, journal.Filter{Before: &journal.Position{Began: after.Began, ID: "run_gone"}}); rest != "c b a z" {
		t.Errorf("after a run that is gone the list goes on with %q, want all that began with it or earlier", rest)
	}
	all, last := listed(t, d, journal.Filter{})
	if rest, _ := listed(t, d, journal.Filter{Before: last}); all != "f e d y c b a z" || rest != "" {
		t.Errorf("the list is %q, and %q after its end", all, rest)
	}
	if err := d.Expire(t.Context(), start.Add(2*time.Minute), start); err != nil {
		t.Fatal(err)
	}
	if all, _ = listed(t, d, journal.Filter{}); all != "f e d y c b a" {
		t.Errorf("after Expire the list is %q", all)
	}
}

// running: of runs that are stored as running, a list with a limit finds those of live processes, and the others, however many there are.
func running(t *testing.T, s Store) {
	d := s.Open(t)
	var list []journal.Write
	for i := range 450 {
		w := newRun(fmt.Sprintf("run_%03d", i))
		w.Row.Began, w.Release = start.Add(time.Duration(i)*time.Second), i != 3 && i != 200 && i != 449
		list = append(list, w)
	}
	write(t, d, list...)
	for _, test := range []struct {
		filter journal.Filter
		want   string
	}{
		{journal.Filter{Status: journal.Running, Limit: 1}, "449"}, {journal.Filter{Status: journal.Running, Limit: 3}, "449 200 003"},
		{journal.Filter{Status: journal.Running}, "449 200 003"}, {journal.Filter{Status: journal.Interrupted, Limit: 2}, "448 447"},
		{journal.Filter{Status: journal.Running, Limit: 2, Before: &journal.Position{Began: list[449].Row.Began, ID: "run_449"}}, "200 003"},
	} {
		if got, _ := listed(t, d, test.filter); got != test.want {
			t.Errorf("%+v: %q, want %q", test.filter, got, test.want)
		}
	}
}

// functionsOfCallers: the runs of a function are found by caller and by whether they are not ok, as their rows are now.
func functionsOfCallers(t *testing.T, s Store) {
	d := s.Open(t)
	ann, bob, nobody := "ann", "bob", "nobody"
	change := func(id string, status journal.Status, code fault.Code, functions ...string) {
		w := journal.Write{ID: "run_" + id, Lease: 1, Row: row("run_" + id)}
		if w.Row.Caller, w.Row.Status, w.Row.Code = ann, status, code; id == "b" {
			w.Row.Caller = bob
		}
		if functions != nil {
			w.Row.Functions = functions
		}
		write(t, d, w)
	}
	for _, id := range []string{"a", "b", "c"} {
		w := newRun("run_" + id)
		if w.Row.Caller = ann; id == "b" {
			w.Row.Caller = bob
		}
		write(t, d, w)
	}
	want := func(what, ofAnn, notOK, notOKOfAnn, waits string) {
		t.Helper()
		for _, test := range []struct {
			filter journal.Filter
			want   string
		}{
			{journal.Filter{Function: "fs.read", Callers: []string{ann}}, ofAnn}, {journal.Filter{Function: "fs.read", NotOK: true}, notOK},
			{journal.Filter{Function: "fs.read", Callers: []string{ann}, NotOK: true}, notOKOfAnn}, {journal.Filter{Function: "fs.read", Callers: []string{nobody}}, ""},
			{journal.Filter{Status: journal.Waiting, Code: fault.ApprovalRequired}, waits},
			{journal.Filter{Status: journal.Waiting, Code: fault.ApprovalRequired, Callers: []string{bob}}, ""},
			{journal.Filter{Function: "fs.read", Status: journal.Waiting, Code: fault.ApprovalRequired, Callers: []string{ann}}, waits},
		} {
			if got, _ := listed(t, d, test.filter); got != test.want {
				t.Errorf("%s: %+v: %q, want %q", what, test.filter, got, test.want)
			}
		}
	}
	want("running", "c a", "c b a", "c a", "")
	change("a", journal.OK, "")
	change("b", journal.OK, "")
	change("c", journal.Waiting, fault.ApprovalRequired)
	want("one waits", "c a", "c", "c", "c")
	change("a", journal.Waiting, "")
	want("one is suspended, too", "c a", "c a", "c a", "c")
	change("a", journal.Failed, fault.Timeout, "fs.list", "fs.read")
	change("c", journal.OK, "", "fs.list")
	want("with other functions", "a", "a", "a", "")
	change("a", journal.OK, "", "fs.list", "fs.read")
	want("all are ok", "a", "", "", "")
}
