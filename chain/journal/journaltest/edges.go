package journaltest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// rewritten: a changed row is found by its new values, not by its old ones.
func rewritten(t *testing.T, s Store) {
	d, other := s.Open(t), s.Open(t)
	write(t, d, newRun("run_a"))
	changed := row("run_a")
	changed.Functions, changed.Chain, changed.Caller, changed.Key = []string{"a.b", "c.d"}, "nightly", "token:new", "k"
	write(t, d, journal.Write{ID: "run_a", Lease: 1, Row: changed})
	changed = row("run_a")
	changed.Functions, changed.Status, changed.Chain, changed.Caller, changed.Key, changed.Lease = []string{"c.d",
		"e.f"}, journal.Failed, "nightly", "token:new", "k", 2
	write(t, d, journal.Write{ID: "run_a", Lease: 1, Release: true})
	if _, err := other.Acquire(t.Context(), "run_a", nil); err != nil {
		t.Fatal(err)
	}
	write(t, other, journal.Write{ID: "run_a", Lease: 2, Row: changed})
	oldCaller, newCaller := "token:ci", "token:new"
	for _, test := range []struct {
		filter journal.Filter
		want   int
	}{
		{journal.Filter{Function: "fs.read"}, 0}, {journal.Filter{Function: "a.b"}, 0}, {journal.Filter{Function: "c.d"},
			1}, {journal.Filter{Function: "e.f"}, 1},
		{journal.Filter{Callers: []string{oldCaller}}, 0}, {journal.Filter{Callers: []string{newCaller}}, 1},
		{journal.Filter{Status: journal.Running},
			0}, {journal.Filter{Status: journal.Failed}, 1},
		{journal.Filter{Status: journal.Failed, Function: "e.f"}, 1}, {journal.Filter{Status: journal.Failed, Function: "a.b"}, 0},
	} {
		if rows, err := d.List(t.Context(), &test.filter); len(rows) != test.want || err != nil {
			t.Errorf("%+v: %d rows, %v", test.filter, len(rows), err)
		}
	}
	if id, _, err := d.Find(t.Context(), newCaller, "k"); id != "run_a" {
		t.Errorf("Find by the new caller and key: %q, %v", id, err)
	}
}

// unusualText: any text of a caller is stored, and no text makes another write fail.
func unusualText(t *testing.T, s Store) {
	d := s.Open(t)
	for i, text := range []string{"'; DROP TABLE onecall_runs; --", `"[]{}\`, "zero\x00byte", "not\xffUTF-8", "%_", "\U0001F600 \u2028"} {
		w := newRun(fmt.Sprint("run_", i))
		w.Row.Key, w.Row.Chain, w.Row.Hash, w.Row.Functions, w.Row.Caller = text, text, text, []string{text, "fs.read"}, text
		w.Days = []journal.Day{{Day: journal.DayOf(start), Caller: text, Chain: text, Function: text, Count: 1}}
		write(t, d, w, newRun(fmt.Sprint("run_beside_", i)))
		rows, err := d.List(t.Context(), &journal.Filter{Callers: []string{text}, Chains: []string{text}, Function: text})
		if err != nil || len(rows) != 1 || rows[0].ID != w.ID {
			t.Errorf("%q: %+v, %v", text, rows, err)
		}
		if id, _, err := d.Find(t.Context(), text, text); id != w.ID {
			t.Errorf("%q: found %q, %v", text, id, err)
		}
		filter := &journal.Filter{Callers: []string{text}, Chains: []string{text}, Function: text}
		if days, err := d.Days(t.Context(), filter); len(days) != 1 || err != nil {
			t.Errorf("%q: %d days, %v", text, len(days), err)
		}
	}
}

// sums: concurrent writers lose none of a day's sums, and a refused write adds nothing.
func sums(t *testing.T, s Store) {
	const goroutines, perGoroutine = 4, 25
	functions := []string{"a.b", "c.d", ""}
	var wg sync.WaitGroup
	for g := range goroutines {
		d := s.Open(t)
		wg.Go(func() {
			for i := range perGoroutine {
				id := fmt.Sprintf("run_%d_%d", g, i)
				w := newRun(id)
				for _, function := range functions {
					times := journal.Times{}
					times.Count(time.Duration(i+1) * time.Millisecond)
					w.Days = append(w.Days,
						journal.Day{Day: journal.DayOf(start), Caller: "token:ci", Function: function, Count: 1, Calls: 2, Times: times})
				}
				if g%2 == 1 {
					slices.Reverse(w.Days)
				}
				foreign := journal.Write{ID: "run_none", Lease: 1, Days: w.Days}
				if refused, err := d.Write(t.Context(), []journal.Write{w, foreign}); err != nil || !slices.Equal(refused, []bool{false, true}) {
					t.Errorf("refused %v, want only the unknown run; error %v", refused, err)
					return
				}
			}
		})
	}
	wg.Wait()
	days, err := s.Open(t).Days(t.Context(), &journal.Filter{})
	if err != nil || len(days) != len(functions) {
		t.Fatalf("days %+v, %v", days, err)
	}
	for _, day := range days {
		counted := int64(0)
		for _, n := range day.Times {
			counted += n
		}
		if day.Count != goroutines*perGoroutine || day.Calls != 2*goroutines*perGoroutine || counted != goroutines*perGoroutine {
			t.Errorf("%s: count %d, %d calls, %d times", day.Function, day.Count, day.Calls, counted)
		}
	}
}

// sideBySide: concurrent runs do not disturb each other, and each has its segments in order.
func sideBySide(t *testing.T, s Store) {
	const runs, perGoroutine = 6, 20
	drivers := []journal.Driver{s.Open(t), s.Open(t)}
	var wg sync.WaitGroup
	for g := range runs {
		d, id := drivers[g%2], fmt.Sprint("run_", g)
		wg.Go(func() {
			for i := range perGoroutine {
				w := journal.Write{ID: id, Lease: 1, Row: row(id), New: i == 0, Segment: segment(1, i+1), Tokens: 1}
				w.Row.Calls = i
				if refused, err := d.Write(t.Context(), []journal.Write{w}); err != nil || refused[0] {
					t.Errorf("refused %v, error %v", refused, err)
					return
				}
			}
		})
	}
	wg.Wait()
	for g := range runs {
		got := load(t, drivers[0], fmt.Sprint("run_", g))
		if got.Row.Calls != perGoroutine-1 || got.Row.Tokens != perGoroutine || len(got.Segments) != perGoroutine {
			t.Errorf("run %+v with %d segments", got.Row, len(got.Segments))
		}
		for i, s := range got.Segments {
			if s.First != i+1 {
				t.Errorf("segment %d begins at event %d", i, s.First)
			}
		}
	}
}

// lateRelease: a late write releases its own lease, and no other.
func lateRelease(t *testing.T, s Store) {
	d := s.Open(t)
	release := journal.Write{ID: "run_a", Lease: 1, Late: true, Release: true}
	write(t, d, newRun("run_a"), release)
	if _, err := d.Acquire(t.Context(), "run_a", nil); err != nil {
		t.Fatal(err)
	}
	write(t, d, release)
	if _, err := d.Acquire(t.Context(), "run_a", nil); !errors.Is(err, journal.ErrBusy) {
		t.Fatalf("release of an old lease: Acquire returns %v, want ErrBusy", err)
	}
	release.Lease = 2
	write(t, d, release)
	if got, err := d.Acquire(t.Context(), "run_a", nil); err != nil || got.Row.Lease != 3 {
		t.Errorf("Acquire after the release returns %+v, %v", got, err)
	}
}

// firstUse: several processes create the same database at once.
func firstUse(t *testing.T, s Store) {
	const processes = 8
	var wg sync.WaitGroup
	for i := range processes {
		d := s.Open(t)
		wg.Go(func() {
			if refused, err := d.Write(t.Context(), []journal.Write{newRun(fmt.Sprint("run_", i))}); err != nil || refused[0] {
				t.Errorf("refused %v, error %v", refused, err)
			}
		})
	}
	wg.Wait()
	if rows, err := s.Open(t).List(t.Context(), &journal.Filter{}); len(rows) != processes || err != nil {
		t.Errorf("%d rows, want 8: %v", len(rows), err)
	}
}

// interrupted: a running run whose lease no process has is reported as interrupted, until its lease is taken.
func interrupted(t *testing.T, s Store) {
	d := s.Open(t)
	write(t, d, newRun("run_a"), newRun("run_b"), newRun("run_c"))
	write(t, d, journal.Write{ID: "run_b", Lease: 1, Release: true}, journal.Write{ID: "run_c", Lease: 1, Release: true})
	statuses := func() (list string) {
		rows, err := d.List(t.Context(), &journal.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			alone, err := d.LoadRow(t.Context(), rows[i].ID)
			if err != nil {
				t.Fatal(err)
			}
			if loaded := load(t, d, rows[i].ID); loaded.Row.Status != rows[i].Status || alone.Status != rows[i].Status {
				t.Errorf("Load of %s says %s, LoadRow %s, List says %s", rows[i].ID, loaded.Row.Status, alone.Status, rows[i].Status)
			}
			list = string(rows[i].Status) + " " + list
		}
		return list
	}
	if got := statuses(); got != "running interrupted interrupted " {
		t.Errorf("statuses %s", got)
	}
	for _, status := range []journal.Status{journal.Running, journal.Interrupted} {
		rows, err := d.List(t.Context(), &journal.Filter{Status: status, Limit: 1})
		if err != nil || len(rows) != 1 || rows[0].Status != status {
			t.Errorf("runs with status %s: %v, %v", status, rows, err)
		}
	}
	rec, err := d.Acquire(t.Context(), "run_c", nil)
	if err != nil || rec.Row.Status != journal.Running {
		t.Fatalf("Acquire returns %+v, %v", rec, err)
	}
	if got := statuses(); got != "running interrupted running " {
		t.Errorf("statuses after Acquire: %s", got)
	}
}

// singleWrite: a complete run may be a single write. It is stored, acquired and continued like any other.
func singleWrite(t *testing.T, s Store) {
	d := s.Open(t)
	ended, dropped := newRun("run_a"), newRun("run_b")
	ended.Release, dropped.Release, dropped.DropResults = true, true, true
	write(t, d, ended, dropped)
	if s := load(t, d, "run_b").Segments; len(s) != 1 || len(s[0].Results) > 0 || string(s[0].Retained) != "kept" {
		t.Errorf("segments after DropResults: %+v", s)
	}
	got, err := d.Acquire(t.Context(), "run_a", nil)
	if err != nil || len(got.Segments) != 1 || !slices.Equal(got.Segments[0].Results, ended.Segment.Results) ||
		string(got.Segments[0].Events) != `[{"n":1}]` {
		t.Fatalf("Acquire returns %+v, %v", got, err)
	}
	late := journal.Write{ID: "run_a", Lease: 1, Late: true, Segment: segment(1, 2)}
	write(t, d, journal.Write{ID: "run_a", Lease: 2, Row: &got.Row, Segment: segment(2, 9)}, late)
	segments := load(t, d, "run_a").Segments
	if len(segments) != 3 || segments[0].First != 1 || segments[1].First != 2 || segments[2].First != 9 || len(segments[0].Results) == 0 {
		t.Errorf("segments %+v", segments)
	}
	write(t, d, journal.Write{ID: "run_a", Lease: 2, Row: &got.Row, DropResults: true, Release: true})
	for _, s := range load(t, d, "run_a").Segments {
		if len(s.Results) > 0 || string(s.Retained) != "kept" {
			t.Errorf("segment after DropResults: %+v", s)
		}
	}
}

// check: Check succeeds and changes nothing, before and after a write.
func check(t *testing.T, s Store) {
	d := s.Open(t)
	if err := d.Check(t.Context()); err != nil {
		t.Error(err)
	}
	write(t, d, newRun("run_a"))
	before := fmt.Sprint(load(t, d, "run_a"))
	if err := d.Check(t.Context()); err != nil || fmt.Sprint(load(t, d, "run_a")) != before {
		t.Errorf("Check changed the run, or failed: %v", err)
	}
}
