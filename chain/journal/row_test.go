package journal_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// rowDriver counts how often a run is loaded. With older, its rows are those of a version that did not write what the events say.
type rowDriver struct {
	journal.Memory
	older bool
	loads int
}

func (d *rowDriver) Load(ctx context.Context, id string, lease int64, first int) (*journal.Record, error) {
	d.loads++
	return d.Memory.Load(ctx, id, lease, first)
}

func (d *rowDriver) LoadRow(ctx context.Context, id string) (*journal.Row, error) {
	row, err := d.Memory.LoadRow(ctx, id)
	if err == nil && d.older {
		row.HandoverLease, row.LastLease, row.Scope = -1, 0, ""
	}
	return row, err
}

// TestReadRow: at each moment of a run, its row says what its events say, and nothing else is loaded. Only for the row of an older version,
// the events are.
func TestReadRow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &rowDriver{}
		j := openJournal(t, d)
		run := j.Begin(&journal.Start{Caller: "ann", Scope: "s", Text: []byte("{}"), Hash: func() string { return "" }})
		want := func(when string, handover, last, lease int64) {
			t.Helper()
			past, err := j.Read(t.Context(), run.ID(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, older := range []bool{false, true} {
				d.older, d.loads = older, 0
				row, err := j.ReadRow(t.Context(), run.ID(), "ann", "s")
				if err != nil {
					t.Fatalf("%s: %v", when, err)
				}
				for _, r := range []*journal.Row{row, &past.Row} {
					if r.HandoverLease != handover || r.LastLease != last || r.Lease != lease || r.Scope != "s" {
						t.Errorf("%s, older %t: %+v, want hand-over %d, last lease %d of %d", when, older, r, handover, last, lease)
					}
				}
				if (d.loads > 0) != older {
					t.Errorf("%s, older %t: the events were loaded %d times", when, older, d.loads)
				}
			}
		}
		acquire := func() *journal.Past {
			past, err := j.Acquire(t.Context(), run.ID(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return past
		}
		end := func(r *journal.Run) {
			if err := r.EndUnfinished(journal.Waiting, "", ""); err != nil {
				t.Fatal(err)
			}
		}
		if err := run.Claim(); err != nil {
			t.Fatal(err)
		}
		want("begun", 0, 1, 1)
		run.HandOver()
		end(run)
		want("handed over", 1, 1, 1)
		j.Release(acquire())
		want("taken and released", 1, 1, 2)
		end(j.Resume(acquire(), nil))
		want("resumed without an event", 1, 1, 3)
		resumed := j.Resume(acquire(), nil)
		resumed.Append(journal.Event{Kind: journal.Denied})
		end(resumed)
		want("resumed", 1, 4, 4)
		again := j.Resume(acquire(), nil)
		again.HandOver()
		end(again)
		want("handed over again", 5, 5, 5)

		for _, foreign := range [][3]string{{run.ID(), "bob", "s"}, {run.ID(), "ann", ""}, {"run_none", "ann", "s"}} {
			for _, d.older = range []bool{false, true} {
				if _, err := j.ReadRow(t.Context(), foreign[0], foreign[1], foreign[2]); !errors.Is(err, journal.ErrNotFound) {
					t.Errorf("%q, older %t: %v, want ErrNotFound", foreign, d.older, err)
				}
			}
		}
		end(j.Resume(acquire(), nil))
		leased := acquire() // so that the run stays although it expires
		time.Sleep(journal.DefaultKeep + time.Second)
		if _, err := j.ReadRow(t.Context(), run.ID(), "ann", "s"); !errors.Is(err, journal.ErrNotFound) {
			t.Errorf("an expired run: %v, want ErrNotFound", err)
		}
		j.Release(leased)
	})
}

// TestFind: a run is found by its key, in its scope, until it expires, and is not loaded for that. Then another run can have the key.
func TestFind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &rowDriver{}
		j := openJournal(t, d)
		keyed := &journal.Start{Caller: "ann", Scope: "s", Key: "k", Text: []byte("{}"), Hash: func() string { return "" }}
		begin := func() string {
			run := j.Begin(keyed)
			if err := run.EndUnfinished(journal.Failed, fault.Timeout, ""); err != nil {
				t.Fatal(err)
			}
			return run.ID()
		}
		first := begin()
		if id, err := j.Find(t.Context(), "ann", "s", "k"); id != first || err != nil || d.loads > 0 {
			t.Errorf("found %q, %v, with %d loads, want %q with none", id, err, d.loads, first)
		}
		if id, err := j.Find(t.Context(), "ann", "", "k"); !errors.Is(err, journal.ErrNotFound) {
			t.Errorf("in another scope: found %q, %v, want ErrNotFound", id, err)
		}
		time.Sleep(journal.DefaultKeep + time.Microsecond)
		if id, err := j.Find(t.Context(), "ann", "s", "k"); !errors.Is(err, journal.ErrNotFound) {
			t.Errorf("after it has expired: found %q, %v, want ErrNotFound", id, err)
		}
		if second := begin(); second == first {
			t.Errorf("the key still names %q", first)
		}
	})
}
