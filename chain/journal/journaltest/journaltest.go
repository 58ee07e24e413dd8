// Package journaltest has the tests that each driver of package journal passes.
package journaltest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// Store is the database of a driver under test.
type Store struct {
	// Open opens the database again, as another process would. It must see to it that the driver is closed at the end of the test; a test
	// may close it earlier.
	Open func(t *testing.T) journal.Driver
	// Shared: other drivers see what one driver has written, even after it was closed.
	Shared bool
}

// Run tests a driver. fresh returns a new, empty database.
func Run(t *testing.T, fresh func(t *testing.T) Store) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Store)
	}{
		{"Segments", segments}, {"Lease", lease}, {"Interrupted", interrupted}, {"Late", late}, {"Repeated", repeated}, {"Drop", drop},
		{"Large", large}, {"SingleWrite", singleWrite}, {"Find", find}, {"FindPrefix", findPrefix},
		{"List", list}, {"Pages", pages}, {"Running", running},
		{"Load after", loadAfter}, {"Version", version},
		{"FunctionsOfCallers", functionsOfCallers}, {"Days", days}, {"Expire", expire},
		{"Batch", batch}, {"ConcurrentLeases", concurrentLeases}, {"Reopen", reopen}, {"Rewritten", rewritten}, {"UnusualText", unusualText},
		{"Sums", sums}, {"SideBySide", sideBySide}, {"LateRelease", lateRelease}, {"FirstUse", firstUse}, {"Check", check},
		{"Parts", parts}, {"ExpireWhileRead", expireWhileRead}, {"AtWorkers", atWorkers},
		{"State", state}, {"StateRefused", stateRefused}, {"StateExpires", stateExpires}, {"StateOfMany", stateOfMany},
		{"StateRemoved", stateRemoved},
		{"StateKept", stateKept},
		{"StateMarked", stateMarked},
	} {
		store := fresh(t)
		if test.name == "Reopen" && !store.Shared {
			continue // the driver does not outlast its process
		}
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, store)
		})
	}
}

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func row(id string) *journal.Row {
	return &journal.Row{ID: id, Caller: "token:ci", Status: journal.Running, Began: start, Last: start, Expires: start.Add(time.Hour),
		Steps: 2, Lease: 1,
		Functions: []string{"fs.read"}}
}

func newRun(id string) journal.Write {
	return journal.Write{ID: id, Lease: 1, New: true, Row: row(id), Segment: segment(1, 1)}
}

func segment(lease int64, first int) *journal.Segment {
	return &journal.Segment{Lease: lease, First: first, Events: fmt.Appendf(nil, `[{"n":%d}]`, first), Results: []byte{1, 2, 0, 255},
		Retained: []byte("kept")}
}

func write(t *testing.T, d journal.Driver, list ...journal.Write) {
	t.Helper()
	refused, err := d.Write(t.Context(), list)
	if err != nil || slices.Contains(refused, true) || len(refused) != len(list) {
		t.Fatalf("refused %v, error %v", refused, err)
	}
}

func load(t *testing.T, d journal.Driver, id string) *journal.Record {
	t.Helper()
	r, err := d.Load(t.Context(), id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// segments: the segments of a run are returned as they were written, in the order of their leases and numbers.
func segments(t *testing.T, s Store) {
	d := s.Open(t)
	write(t, d, newRun("run_a"), journal.Write{ID: "run_a", Lease: 1, Segment: segment(1, 5)})
	ended := row("run_a")
	ended.Status, ended.Code, ended.Took, ended.Calls, ended.Writes, ended.Undos, ended.Reused, ended.Left = journal.Failed, "timeout",
		1234*time.Microsecond, 3, 2, 1, 1, 4
	ended.Chain, ended.Key, ended.Hash, ended.Functions = "provision", "k", "h", []string{"a.b", "c.d"}
	ended.HandoverLease, ended.LastLease, ended.Scope = 2, 3, "/etc/onecall.yaml"
	write(t, d, journal.Write{ID: "run_a", Lease: 1, Row: ended, Segment: segment(1, 10), Tokens: 5, Stored: 7})
	write(t, d, journal.Write{ID: "run_a", Lease: 1, Tokens: 1, Stored: 2})
	got := load(t, d, "run_a")
	ended.Tokens, ended.Stored = 6, 9
	alone, err := d.LoadRow(t.Context(), "run_a")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []journal.Row{got.Row, *alone} {
		if want := fmt.Sprintf("%+v", *ended); fmt.Sprintf("%+v", inUTC(row)) != want {
			t.Errorf("the row is\n%+v, want\n%s", inUTC(row), want)
		}
	}
	if len(got.Segments) != 3 || got.Written != 3 || got.Segments[1].First != 5 || got.Segments[2].First != 10 ||
		string(got.Segments[2].Events) != `[{"n":10}]` || !slices.Equal(got.Segments[0].Results, []byte{1, 2, 0, 255}) || string(got.Segments[0].Retained) != "kept" {
		t.Errorf("loaded segments %+v", got.Segments)
	}
	if _, err := d.Load(t.Context(), "run_b", 0, 0); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("Load of an unknown run: %v, want ErrNotFound", err)
	}
	if _, err := d.LoadRow(t.Context(), "run_b"); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("LoadRow of an unknown run: %v, want ErrNotFound", err)
	}
}

func inUTC(r journal.Row) journal.Row {
	r.Began, r.Last, r.Expires = r.Began.UTC(), r.Last.UTC(), r.Expires.UTC()
	return r
}

// lease: only one driver has the lease of a run, and the driver that had it earlier cannot write any more.
func lease(t *testing.T, s Store) {
	d, other := s.Open(t), s.Open(t)
	write(t, d, newRun("run_a"))
	for _, from := range []journal.Driver{d, other} {
		if _, err := from.Acquire(t.Context(), "run_a", nil); !errors.Is(err, journal.ErrBusy) {
			t.Fatalf("Acquire of a running run: %v, want ErrBusy", err)
		}
	}
	write(t, d, journal.Write{ID: "run_a", Lease: 1, Release: true})
	otherCaller := "token:other"
	if _, err := other.Acquire(t.Context(), "run_a", &otherCaller); !errors.Is(err, journal.ErrNotFound) {
		t.Fatalf("Acquire by another caller: %v, want ErrNotFound", err)
	}
	caller := "token:ci"
	got, err := other.Acquire(t.Context(), "run_a", &caller)
	if err != nil || got.Row.Lease != 2 || len(got.Segments) != 1 {
		t.Fatalf("Acquire returns %+v, %v", got, err)
	}
	if _, err := d.Acquire(t.Context(), "run_a", nil); !errors.Is(err, journal.ErrBusy) {
		t.Fatalf("Acquire of a run that another driver has: %v, want ErrBusy", err)
	}
	refused, err := d.Write(t.Context(),
		[]journal.Write{{ID: "run_a", Lease: 1, Segment: segment(1, 2)}, newRun("run_b"), {ID: "run_none", Lease: 1}})
	if err != nil || !slices.Equal(refused, []bool{true, false, true}) {
		t.Fatalf("refused %v, error %v", refused, err)
	}
	write(t, other, journal.Write{ID: "run_a", Lease: 2, Segment: segment(2, 2)})
	if got := load(t, d, "run_a"); len(got.Segments) != 2 || got.Segments[1].Lease != 2 {
		t.Errorf("segments after the lease changed: %+v", got.Segments)
	}
	load(t, d, "run_b")
	if _, err := d.Acquire(t.Context(), "run_none", nil); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("Acquire of an unknown run: %v, want ErrNotFound", err)
	}
}

// repeated: a segment that was added already is neither added nor counted again, and one that was not is.
func repeated(t *testing.T, s Store) {
	d := s.Open(t)
	again := journal.Write{ID: "run_a", Lease: 1, Late: true, Repeated: true, Segment: segment(1, 2)}
	write(t, d, newRun("run_a"), journal.Write{ID: "run_a", Lease: 1, Segment: segment(1, 2)}, again)
	more := again
	more.Segment = segment(1, 3)
	write(t, d, again, more)
	ended := journal.Write{ID: "run_a", Lease: 1, Repeated: true, Row: row("run_a"), Segment: segment(1, 4), Release: true}
	write(t, d, ended)
	write(t, d, ended)
	if got := load(t, d, "run_a"); len(got.Segments) != 4 || got.Written != 4 {
		t.Errorf("run after repeated writes: %d of %d segments, want 4", len(got.Segments), got.Written)
	}
	if rec, err := d.Acquire(t.Context(), "run_a", nil); err != nil || rec.Written != 4 {
		t.Errorf("Acquire after repeated writes: %+v, %v", rec, err)
	}
}

// late: late writes are accepted whichever driver has the lease, and change no row.
func late(t *testing.T, s Store) {
	d := s.Open(t)
	write(t, d, newRun("run_a"), journal.Write{ID: "run_a", Lease: 1, Release: true})
	if _, err := d.Acquire(t.Context(), "run_a", nil); err != nil {
		t.Fatal(err)
	}
	write(t, d, journal.Write{ID: "run_a", Lease: 2, Segment: segment(2, 2)},
		journal.Write{ID: "run_a", Lease: 1, Late: true, Segment: segment(1, 2), Tokens: 3})
	got := load(t, d, "run_a")
	if len(got.Segments) != 3 || got.Segments[1].Lease != 1 || got.Segments[2].Lease != 2 || got.Row.Lease != 2 || got.Row.Tokens != 3 {
		t.Errorf("run after a late write: %+v", got)
	}
	if _, err := d.Acquire(t.Context(), "run_a", nil); !errors.Is(err, journal.ErrBusy) {
		t.Errorf("Acquire after a late write: %v, want ErrBusy", err)
	}
}

func drop(t *testing.T, s Store) {
	d := s.Open(t)
	write(t, d, newRun("run_a"), newRun("run_b"),
		journal.Write{ID: "run_a", Lease: 1, Segment: segment(1, 2), DropResults: true, Release: true})
	for _, s := range load(t, d, "run_a").Segments {
		if len(s.Results) > 0 || string(s.Retained) != "kept" {
			t.Errorf("segment after DropResults: %+v", s)
		}
	}
	if s := load(t, d, "run_b").Segments[0]; len(s.Results) == 0 {
		t.Error("DropResults removed another run's results")
	}
}

// large: large results are stored whole, also those of a run that is one write, and again, and are dropped with the others.
func large(t *testing.T, s Store) {
	d := s.Open(t)
	results := make([]byte, 5<<19)
	for i := range results {
		results[i] = byte(i * i >> 7)
	}
	with := func(w journal.Write) journal.Write {
		w.Segment.Results = results
		return w
	}
	whole := with(newRun("run_whole"))
	whole.Release = true
	second := with(journal.Write{ID: "run_a", Lease: 1, Segment: segment(1, 2)})
	again := second
	again.Late, again.Repeated = true, true
	write(t, d, whole, newRun("run_a"), second, again, journal.Write{ID: "run_a", Lease: 1, Segment: segment(1, 3)})
	for id, want := range map[string][]int{"run_whole": {len(results)}, "run_a": {4, len(results), 4}} {
		got := load(t, d, id)
		if len(got.Segments) != len(want) || got.Written != len(want) {
			t.Fatalf("%s has %d of %d segments, want %d", id, len(got.Segments), got.Written, len(want))
		}
		for i, n := range want {
			if stored := got.Segments[i].Results; len(stored) != n || n > 4 && !bytes.Equal(stored, results) {
				t.Errorf("segment %d of %s has %d bytes of results, want the %d that were written", i, id, len(stored), n)
			}
		}
	}
	write(t, d, journal.Write{ID: "run_a", Lease: 1, Row: row("run_a"), DropResults: true, Release: true})
	for _, s := range load(t, d, "run_a").Segments {
		if len(s.Results) > 0 {
			t.Errorf("a segment has %d bytes of results after DropResults", len(s.Results))
		}
	}
	if s := load(t, d, "run_whole").Segments; len(s[0].Results) != len(results) {
		t.Error("DropResults removed another run's results")
	}
}

// expire removes expired runs, but none that is running.
func expire(t *testing.T, s Store) {
	d := s.Open(t)
	write(t, d, newRun("run_a"), newRun("run_b"), newRun("run_c"), journal.Write{ID: "run_a", Lease: 1, Release: true})
	extended := row("run_b")
	extended.Expires = start.Add(3 * time.Hour)
	write(t, d, journal.Write{ID: "run_b", Lease: 1, Row: extended, Release: true})
	if err := d.Expire(t.Context(), start.Add(2*time.Hour), start); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Load(t.Context(), "run_a", 0, 0); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("Load of an expired run: %v, want ErrNotFound", err)
	}
	load(t, d, "run_b")
	write(t, d, journal.Write{ID: "run_c", Lease: 1, Segment: segment(1, 2)})
}

// expireWhileRead: a run that expires while it is read is there with all its segments, or not at all.
func expireWhileRead(t *testing.T, s Store) {
	d, reader := s.Open(t), s.Open(t)
	var readers sync.WaitGroup
	defer readers.Wait()
	for i := range 40 {
		id := fmt.Sprint("run_", i)
		write(t, d, newRun(id), journal.Write{ID: id, Lease: 1, Segment: segment(1, 2), Release: true})
		begun := make(chan struct{}, 3)
		for range cap(begun) {
			readers.Go(func() {
				for {
					rec, err := reader.Load(t.Context(), id, 0, 0)
					select {
					case begun <- struct{}{}:
					default:
					}
					if errors.Is(err, journal.ErrNotFound) {
						return
					}
					if err != nil || len(rec.Segments) != rec.Written {
						t.Errorf("%s while it expires: %+v, %v", id, rec, err)
						return
					}
				}
			})
		}
		for range cap(begun) {
			<-begun
		}
		if err := d.Expire(t.Context(), start.Add(2*time.Hour), start); err != nil {
			t.Fatal(err)
		}
		readers.Wait()
	}
}

// batch: the writes of a batch are done in their order.
func batch(t *testing.T, s Store) {
	d := s.Open(t)
	second := row("run_a")
	second.Status = journal.OK
	write(t, d, newRun("run_a"), journal.Write{ID: "run_a", Lease: 1, Row: second, Segment: segment(1, 2)},
		journal.Write{ID: "run_a", Lease: 1, Release: true})
	if got, err := d.Acquire(t.Context(), "run_a", nil); err != nil || got.Row.Status != journal.OK || len(got.Segments) != 2 {
		t.Errorf("Acquire returns %+v, %v", got, err)
	}
}

// concurrentLeases: goroutines write side by side, and only one of them gets each lease.
func concurrentLeases(t *testing.T, s Store) {
	d, other := s.Open(t), s.Open(t)
	const runs, goroutines = 20, 4
	for i := range runs {
		write(t, d, newRun(fmt.Sprint("run_", i)), journal.Write{ID: fmt.Sprint("run_", i), Lease: 1, Release: true})
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	acquired := map[string]int{}
	for g := range goroutines {
		driver := d
		if g%2 == 1 {
			driver = other
		}
		wg.Go(func() {
			for i := range runs {
				id := fmt.Sprint("run_", i)
				got, err := driver.Acquire(t.Context(), id, nil)
				if errors.Is(err, journal.ErrBusy) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if refused, err := driver.Write(t.Context(), []journal.Write{
					{ID: id, Lease: got.Row.Lease, Segment: segment(got.Row.Lease, 9)},
				}); err != nil || refused[0] {
					t.Errorf("refused %v, error %v", refused, err)
				}
				mu.Lock()
				acquired[id]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for i := range runs {
		if n := acquired[fmt.Sprint("run_", i)]; n != 1 {
			t.Errorf("run %d was acquired %d times, want 1", i, n)
		}
	}
}

// reopen: after the driver was closed, its writes are stored and its leases are free.
func reopen(t *testing.T, s Store) {
	d := s.Open(t)
	write(t, d, newRun("run_a"))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = s.Open(t)
	if got, err := d.Acquire(t.Context(), "run_a", nil); err != nil || got.Row.Lease != 2 || len(got.Segments) != 1 {
		t.Errorf("Acquire after reopening returns %+v, %v", got, err)
	}
}
