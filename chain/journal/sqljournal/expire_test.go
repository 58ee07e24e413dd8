//go:build unix

package sqljournal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// TestSize: ten minutes with 200 steps a second, or 1,000 with ONECALL_TEST_LONG, and each run kept for 60 seconds. After the third minute
// the file grows by at most 10 %. The minutes are those in the rows, not real time.
func TestSize(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	d := openSQLite(t, path)
	const keep = time.Minute
	perSecond := 20 // runs, of ten steps
	if os.Getenv("ONECALL_TEST_LONG") != "" {
		perSecond = 100
	}
	start, n := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), 0
	var third, maximum int64
	for second := range 600 {
		now := start.Add(time.Duration(second) * time.Second)
		list := make([]journal.Write, 0, perSecond+1)
		for i := range perSecond {
			w := typical(newID(n*7919%1_000_003), i != 0)
			w.Row.Began, w.Row.Last, w.Row.Expires = now, now, now.Add(keep)
			if list = append(list, w); i == 0 { // one run of a hundred takes two writes
				list = append(list, journal.Write{ID: w.ID, Lease: 1, Row: w.Row, Release: true, DropResults: true,
					Segment: &journal.Segment{Lease: 1, First: 20, Events: make([]byte, 500)}})
			}
			n++
		}
		mustWrite(t, d, list...)
		if second%60 != 59 {
			continue
		}
		if err := d.Expire(t.Context(), now, now.AddDate(0, 0, -90)); err != nil {
			t.Fatal(err)
		}
		size := sizeOf(t, path)
		if minute := second/60 + 1; minute == 3 {
			third = size
		}
		maximum = max(maximum, size)
	}
	if maximum > third*11/10 {
		t.Errorf("the file grew from %d bytes in the third minute to %d, want at most %d", third, maximum, third*11/10)
	}
	rows, err := d.List(t.Context(), &journal.Filter{})
	if err != nil || len(rows) < 60*perSecond || len(rows) > 61*perSecond {
		t.Errorf("%d runs kept, want those of one minute: %v", len(rows), err)
	}
	// When all runs have expired, the file shrinks.
	if err := d.Expire(t.Context(), start.Add(time.Hour), start.AddDate(1, 0, 0)); err != nil {
		t.Fatal(err)
	}
	d.Close()
	if size := sizeOf(t, path); size > third/4 {
		t.Errorf("%d bytes after all runs expired, of %d before, want at most %d", size, third, third/4)
	}
}

// sizeOf returns the size of the database and its log.
func sizeOf(t *testing.T, path string) (size int64) {
	t.Helper()
	for _, file := range []string{path, path + "-wal"} {
		if info, err := os.Stat(file); err == nil {
			size += info.Size()
		}
	}
	return size
}

// TestExpireDeadRuns: a run under way is kept even if it has expired; that of a dead process is removed. More kept runs than fit one
// transaction come before the removed ones.
func TestExpireDeadRuns(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "journal.db") },
		"postgres": func(t *testing.T) string { return shared.Start(t).Database(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := database(t)
			live, dead := openAt(t, at), openAt(t, at)
			var list []journal.Write
			for i := range 500 {
				list = append(list, typical(fmt.Sprintf("run_lives_%d", i), false))
			}
			mustWrite(t, live, list...)
			last := typical("run_last", false)
			last.Row.Expires = last.Row.Expires.Add(time.Hour)
			mustWrite(t, dead, last)
			dead.Close()
			later := time.Now().AddDate(0, 0, 3)
			if err := live.Expire(t.Context(), later, later.AddDate(0, 0, -90)); err != nil {
				t.Fatal(err)
			}
			rows, err := live.List(t.Context(), &journal.Filter{Function: "fs.read_text_file"})
			if err != nil || len(rows) != 500 {
				t.Errorf("%d running runs kept, want 500: %v", len(rows), err)
			}
			if _, err := live.Load(t.Context(), "run_last", 0, 0); err != journal.ErrNotFound { //nolint:errorlint // it is not wrapped
				t.Errorf("run of a dead process: %v, want ErrNotFound", err)
			}
		})
	}
}

func openAt(t *testing.T, database string) journal.Driver {
	t.Helper()
	d, err := openAny(database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}
