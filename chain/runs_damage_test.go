package chain_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	_ "modernc.org/sqlite"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/chain/journal/sqljournal"
	"github.com/onecall-mcp/onecall/fault"
)

// writingChain writes by itself, for elements, with an idempotency key and in an inline chain, and then fails.
const writingChain = `{"steps":[
	{"fn":"bin.get","args":{}},
	{"fn":"bin.put","args":{"key":"a"}},
	{"fn":"bin.make","forEach":"$0.keys","args":{"key":"$item"}},
	{"chain":{"steps":[{"fn":"bin.pay","args":{"key":"p"}}]}},
	{"expr":"fromJSON('x')"}]}`

// failTwice runs writingChain and resumes it once with the same failure. It returns the run's id.
func failTwice(t *testing.T, j *journal.Journal) (id string) {
	t.Helper()
	store, engine := binEngine(t, j)
	a := engine.Run(t.Context(), []byte(writingChain), nil)
	id = gjson.GetBytes(a.JSON, "resume").Str
	engine.Run(t.Context(), []byte(`{"resume":"`+id+`","return":"$0"}`), nil)
	if id == "" || len(writesOf(store)) != 4 {
		t.Fatalf("%s after %q", a.JSON, store.log)
	}
	return id
}

func binEngine(t *testing.T, j *journal.Journal) (*bin, *chain.Engine) {
	store := &bin{items: map[string]string{}}
	return store, engineOf(t, store.functions(), chain.Options{Journal: j}, false)
}

// writesOf returns the calls that wrote.
func writesOf(store *bin) []string {
	return slices.DeleteFunc(slices.Clone(store.log), func(call string) bool { return strings.HasPrefix(call, "bin.get ") })
}

// damagedDriver returns records with a damage.
type damagedDriver struct {
	*journal.Memory
	damage func(*journal.Record)
}

func (d *damagedDriver) Acquire(ctx context.Context, id string, caller *string) (*journal.Record, error) {
	rec, err := d.Memory.Acquire(ctx, id, caller)
	if err == nil && d.damage != nil {
		d.damage(rec)
	}
	return rec, err
}

// damages calls each with every way to delete, double, exchange or cut a segment of a record. other has segments of another run.
func damages(rec, other *journal.Record, each func(name string, damage func(*journal.Record))) {
	parts := map[string]func(*journal.Segment) *[]byte{
		"events":   func(s *journal.Segment) *[]byte { return &s.Events },
		"results":  func(s *journal.Segment) *[]byte { return &s.Results },
		"retained": func(s *journal.Segment) *[]byte { return &s.Retained },
	}
	for i := range rec.Segments {
		each(fmt.Sprint("delete ", i), func(r *journal.Record) { r.Segments = slices.Delete(r.Segments, i, i+1) })
		each(fmt.Sprint("double ", i), func(r *journal.Record) { r.Segments = slices.Insert(r.Segments, i, r.Segments[i]) })
		each(fmt.Sprint("double under another number ", i), func(r *journal.Record) {
			again := r.Segments[i]
			again.First += 1000
			r.Segments = slices.Insert(r.Segments, i+1, again)
		})
		each(fmt.Sprint("double in place of the next ", i), func(r *journal.Record) {
			if next := i + 1; next < len(r.Segments) {
				r.Segments[next] = r.Segments[i]
			}
		})
		each(fmt.Sprint("one of another run ", i), func(r *journal.Record) { r.Segments[i] = other.Segments[i] })
		each(fmt.Sprint("change the first byte ", i), func(r *journal.Record) { changeFirst(&r.Segments[i], 0) })
		each(fmt.Sprint("cut the header ", i), func(r *journal.Record) { changeFirst(&r.Segments[i], segmentHeader) })
		for name, part := range parts {
			for divisor := range 3 {
				each(fmt.Sprint("cut ", name, i, divisor), func(r *journal.Record) {
					if text := part(&r.Segments[i]); divisor == 0 {
						*text = nil
					} else {
						*text = (*text)[:len(*text)*divisor/3]
					}
				})
			}
			for k := range i {
				each(fmt.Sprint("exchange ", name, i, k), func(r *journal.Record) {
					a, b := part(&r.Segments[i]), part(&r.Segments[k])
					*a, *b = *b, *a
				})
			}
		}
		for k := range i {
			each(fmt.Sprint("exchange ", i, k), func(r *journal.Record) { r.Segments[i], r.Segments[k] = r.Segments[k], r.Segments[i] })
		}
	}
	each("an older lease", func(r *journal.Record) { r.Row.Lease = 2 })
}

// segmentHeader is the length of what stands before the events of a segment: a zero byte, the id of the key and a MAC.
const segmentHeader = 1 + 4 + 16

// changeFirst cuts n bytes from the plain part of a segment, or changes its first: what is left looks like events without a header.
func changeFirst(s *journal.Segment, n int) {
	s.Events = slices.Clone(s.Events[n:])
	if n == 0 {
		s.Events[0] = 1
	}
}

// TestDamagedRun: whatever part of a run's record is deleted, doubled, exchanged or cut, a resume makes no call that was
// applied.
func TestDamagedRun(t *testing.T) {
	t.Parallel()
	d := &damagedDriver{Memory: &journal.Memory{}}
	j := newJournal(t, d)
	id, otherID := failTwice(t, j), failTwice(t, j)
	rec, err := d.Load(t.Context(), id, 0, 0)
	must(t, err)
	other, err := d.Load(t.Context(), otherID, 0, 0)
	must(t, err)
	store, engine := binEngine(t, j)
	unreadable := 0
	damages(rec, other, func(name string, damage func(*journal.Record)) {
		d.damage = damage
		a := engine.Run(t.Context(), []byte(`{"resume":"`+id+`"}`), nil)
		if calls := writesOf(store); len(calls) > 0 || a.OK {
			t.Fatalf("%s: %q were called again, and the answer is %s", name, calls, a.JSON)
		}
		if a.Error.Code == fault.Unreadable {
			unreadable++
		}
		store.log = nil
	})
	if unreadable < 100 {
		t.Errorf("%d damages were noticed when the run was read, want most of them", unreadable)
	}
}

// TestLostEvents: a run that has lost all its events is unreadable, also if they were not counted, and whoever sends its key again learns so.
func TestLostEvents(t *testing.T) {
	t.Parallel()
	for _, written := range []int{0, -1} {
		d := &damagedDriver{Memory: &journal.Memory{}}
		store, engine := binEngine(t, newJournal(t, d))
		for _, want := range []fault.Code{"", fault.Unreadable} {
			a := engine.Run(t.Context(), []byte(`{"key":"K","steps":[{"fn":"bin.put","args":{"key":"a"}}]}`), nil)
			if code := gjson.GetBytes(a.JSON, "error.code").Str; code != string(want) || len(writesOf(store)) != 1 {
				t.Errorf("got code %q, want %q, after the calls %q: %s", code, want, store.log, a.JSON)
			}
			d.damage = func(r *journal.Record) { r.Segments, r.Written = nil, written }
		}
	}
}

// TestDamagedJournal: of a journal in a file, each row that is deleted makes its run unreadable or unknown, and nothing is sent.
func TestDamagedJournal(t *testing.T) {
	t.Parallel()
	path, key := filepath.Join(t.TempDir(), "journal.db"), make([]byte, journal.MinKeyBytes)
	j := openFileJournal(t, path, key)
	id := failTwice(t, j)
	must(t, j.Close())
	whole, err := os.ReadFile(path)
	must(t, err)
	for row, more := 1, true; more; row++ {
		must(t, os.WriteFile(path, whole, 0o600))
		db, err := sql.Open("sqlite", path)
		must(t, err)
		deleted, err := db.Exec(`DELETE FROM onecall_segments WHERE rowid = ?`, row)
		must(t, err)
		n, err := deleted.RowsAffected()
		must(t, err)
		must(t, db.Close())
		more = n > 0
		j := openFileJournal(t, path, key)
		store, engine := binEngine(t, j)
		a := engine.Run(t.Context(), []byte(`{"resume":"`+id+`"}`), nil)
		if calls := writesOf(store); len(calls) > 0 || more != (a.Error.Code == fault.Unreadable) {
			t.Errorf("row %d (deleted: %t): %q were called again, and the answer is %s", row, more, calls, a.JSON)
		}
		if undo := engine.Run(t.Context(), []byte(`{"resume":"`+id+`","undo":true}`), nil); more && len(writesOf(store)) > 0 {
			t.Errorf("row %d: the undo calls %q and answers %s", row, store.log, undo.JSON)
		}
		must(t, j.Close())
	}
}

func openFileJournal(t *testing.T, path string, key []byte) *journal.Journal {
	t.Helper()
	driver, err := sqljournal.OpenSQLite(path, nil)
	must(t, err)
	j, err := journal.New(driver, &journal.Options{Key: key, Place: path, KeyPlace: "the key"})
	must(t, err)
	return j
}
