//go:build unix

package sqljournal_test

import (
	"bytes"
	"database/sql"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// tableRows returns how many rows each table of the journal has, but for those that are not about runs.
func tableRows(t *testing.T, driver string, db *sql.DB) map[string]int {
	t.Helper()
	tables, err := db.Query(map[string]string{"sqlite": "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'onecall%'",
		"pgx": "SELECT tablename FROM pg_tables WHERE tablename LIKE 'onecall%'"}[driver])
	if err != nil {
		t.Fatal(err)
	}
	defer tables.Close()
	rows := map[string]int{}
	for tables.Next() {
		var name string
		if err := tables.Scan(&name); err != nil {
			t.Fatal(err)
		}
		rows[name] = 0
	}
	if err := tables.Err(); err != nil {
		t.Fatal(err)
	}
	for name := range rows {
		var n int
		if err := db.QueryRow("SELECT count(*) FROM " + name).Scan(&n); err != nil {
			t.Fatal(err)
		}
		rows[name] = n
	}
	delete(rows, "onecall_meta")
	delete(rows, "onecall_holders")
	maps.DeleteFunc(rows, func(_ string, n int) bool { return n == 0 })
	return rows
}

// TestPieces: the pieces of results are removed with them, also by a process of an older version, which knows no pieces, and are part of no
// other results.
func TestPieces(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	for name, at := range map[string]struct{ driver, where string }{"sqlite": {"sqlite", path},
		"postgres": {"pgx", shared.Start(t).Database(t)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openAt(t, at.where)
			db, err := sql.Open(at.driver, at.where)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			old, long := bytes.Repeat([]byte("old."), 900_000), bytes.Repeat([]byte("new."), 600_000) // of three pieces, and two
			write := func(id string, results []byte) {
				t.Helper()
				w := typical(id, true)
				w.Segment.Results, w.Days = results, nil
				mustWrite(t, d, w)
			}
			wantRows := func(when string, want map[string]int) {
				t.Helper()
				if got := tableRows(t, at.driver, db); !maps.Equal(got, want) {
					t.Errorf("%s there are rows %v, want %v", when, got, want)
				}
			}
			wantResults := func(when, id string, want []byte) {
				t.Helper()
				rec, err := d.Load(t.Context(), id, 0, 0)
				if err != nil || len(rec.Segments) != 1 || !bytes.Equal(rec.Segments[0].Results, want) {
					t.Errorf("%s: %v; want one segment with %d bytes of results", when, err, len(want))
				} else if n := cap(rec.Segments[0].Results); n > len(want)+1<<20 {
					t.Errorf("%s: %d bytes of results are held in %d", when, len(want), n)
				}
			}
			exec := func(queries ...string) {
				t.Helper()
				for _, query := range queries {
					if _, err := db.Exec(query); err != nil {
						t.Fatal(err)
					}
				}
			}
			run := func(pieces int) map[string]int {
				rows := map[string]int{"onecall_runs": 1, "onecall_segments": 1, "onecall_functions": 2, "onecall_pieces": pieces}
				maps.DeleteFunc(rows, func(_ string, n int) bool { return n == 0 })
				return rows
			}
			write("run_a", old)
			wantRows("written,", run(3))
			wantResults("written", "run_a", old)
			rec, err := d.Acquire(t.Context(), "run_a", nil)
			if err != nil {
				t.Fatal(err)
			}
			lease := rec.Row.Lease
			refused, err := d.Write(t.Context(), []journal.Write{{ID: "run_a", Lease: lease - 1,
				Segment: &journal.Segment{Lease: lease - 1, First: 50, Events: []byte("e"), Results: long}}})
			if err != nil || !refused[0] {
				t.Errorf("a write with an old lease: %v, %v, want it refused", refused, err)
			}
			wantRows("with an old lease,", run(3))
			mustWrite(t, d, journal.Write{ID: "run_a", Lease: lease, DropResults: true, Release: true})
			wantRows("without results,", run(0))
			if err := d.Expire(t.Context(), time.Now().AddDate(1, 0, 0), time.Now()); err != nil {
				t.Fatal(err)
			}
			wantRows("expired,", map[string]int{})

			write("run_b", old)
			exec("DELETE FROM onecall_functions", "DELETE FROM onecall_segments", "DELETE FROM onecall_runs") // as an older version does
			wantRows("removed by an older version,", map[string]int{})
			write("run_c", long)
			wantResults("with the number of a run before", "run_c", long)
			exec("UPDATE onecall_segments SET results = NULL")
			wantResults("dropped by an older version", "run_c", nil)
			write("run_d", old)
			exec("DELETE FROM onecall_segments WHERE run = (SELECT n FROM onecall_runs WHERE id = 'run_d')")
			if rec, err := d.Load(t.Context(), "run_d", 0, 0); err != nil || len(rec.Segments) != 0 {
				t.Errorf("without its segment: %d segments, %v", len(rec.Segments), err)
			}
		})
	}
}
