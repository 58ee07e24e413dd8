package journaltest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// loadAfter: of the segments of a run, those after a position are read, with the row as it is now.
func loadAfter(t *testing.T, s Store) {
	d := s.Open(t)
	whole := newRun("run_whole") // its segment may be in its row
	whole.Release = true
	write(t, d, newRun("run_a"), journal.Write{ID: "run_a", Lease: 1, Segment: segment(1, 5)}, whole)
	write(t, d, journal.Write{ID: "run_a", Lease: 1, Segment: segment(1, 10), Release: true, Tokens: 7})
	for _, test := range []struct {
		id    string
		lease int64
		first int
		want  string
	}{
		{"run_a", 0, 0, "1:1 1:5 1:10 of 3"}, {"run_a", 1, 1, "1:5 1:10 of 3"}, {"run_a", 1, 5, "1:10 of 3"}, {"run_a", 1, 10, "of 3"},
		{"run_a", 2, 1, "of 3"}, {"run_whole", 0, 0, "1:1 of 1"}, {"run_whole", 1, 1, "of 1"},
	} {
		rec, err := d.Load(t.Context(), test.id, test.lease, test.first)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, s := range rec.Segments {
			got += fmt.Sprintf("%d:%d ", s.Lease, s.First)
		}
		if got += fmt.Sprint("of ", rec.Written); got != test.want || rec.Row.ID != test.id || rec.Row.Tokens != map[bool]int{true: 7}[test.id == "run_a"] {
			t.Errorf("%s after %d:%d has %s, want %s, and the row %+v", test.id, test.lease, test.first, got, test.want, rec.Row)
		}
	}
	if _, err := d.Load(t.Context(), "run_none", 1, 1); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("Load of an unknown run: %v, want ErrNotFound", err)
	}
}

// version: it changes with what another process writes.
func version(t *testing.T, s Store) {
	d := s.Open(t)
	now := func() string {
		t.Helper()
		version, again, err := d.Version(t.Context())
		if err != nil || again > 0 != s.Shared || again > time.Second {
			t.Fatalf("the version is %q, to be asked for after %v, error %v", version, again, err)
		}
		return version
	}
	known := now()
	if !s.Shared {
		return
	}
	other := s.Open(t)
	later := func(n time.Duration) *journal.Row {
		r := row("run_a")
		r.Last, r.Expires = start.Add(n), start.Add(n+time.Hour)
		return r
	}
	for i, w := range []journal.Write{newRun("run_a"), {ID: "run_a", Lease: 1, Row: later(time.Second)}, newRun("run_b"),
		{ID: "run_a", Lease: 1, Segment: segment(1, 5), Late: true}, {ID: "run_a", Lease: 1, Row: later(time.Minute), Segment: segment(1, 9), Release: true}} {
		write(t, other, w)
		version := now()
		if version == known {
			t.Errorf("write %d: the version stays %q", i, version)
		}
		known = version
	}
	for i := range 150 { // of a process that keeps runs longer
		w := newRun(fmt.Sprint("run_long_", i))
		w.Row.Expires = start.Add(1000 * time.Hour)
		write(t, other, w)
	}
	known = now()
	if write(t, other, journal.Write{ID: "run_a", Lease: 1, Row: later(time.Hour)}); now() == known {
		t.Error("the version stays although a process that keeps runs for a shorter time has written")
	}
	known = now()
	if _, err := other.Acquire(t.Context(), "run_a", nil); err != nil {
		t.Fatal(err)
	}
	if version := now(); version == known {
		t.Errorf("the version stays %q when another takes a lease", version)
	} else if again := now(); again != version {
		t.Errorf("the version changes from %q to %q although nobody writes", version, again)
	}
}
