//go:build unix

package sqljournal_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// TestVersions: a database of a newer version is refused and not changed; runs of an older version can be read and continued.
func TestVersions(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	openSQLite(t, path).Close()
	test := func(t *testing.T, driver string, db *sql.DB, open func() journal.Driver) {
		d := open()
		mustWrite(t, d, typical("run_a", false))
		d.Close()
		var current int
		if err := db.QueryRow("SELECT version FROM onecall_meta").Scan(&current); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec("UPDATE onecall_meta SET version = 99"); err != nil {
			t.Fatal(err)
		}
		d = open()
		wantAllFail(t, d, "newer version of onecall (its tables are of version 99")
		var rows, version int
		err := db.QueryRow("SELECT (SELECT count(*) FROM onecall_runs), (SELECT version FROM onecall_meta)").Scan(&rows, &version)
		if err != nil || rows != 1 || version != 99 {
			t.Errorf("%d rows of version %d, want 1 of 99: %v", rows, version, err)
		}
		if _, err := db.Exec(fmt.Sprint("UPDATE onecall_meta SET version = ", current)); err != nil {
			t.Fatal(err)
		}
		eventually(t, func(ctx context.Context) error { _, err := d.Load(ctx, "run_a", 0, 0); return err })
		d.Close()
		for _, query := range append(asOfVersion7(driver), "DROP INDEX onecall_runs_parent", "DROP INDEX onecall_runs_parts",
			"ALTER TABLE onecall_runs DROP COLUMN parent", "ALTER TABLE onecall_runs DROP COLUMN batch",
			"ALTER TABLE onecall_runs DROP COLUMN first_events", "ALTER TABLE onecall_runs DROP COLUMN first_results",
			"ALTER TABLE onecall_runs DROP COLUMN first_kept", "ALTER TABLE onecall_runs DROP COLUMN segments",
			"ALTER TABLE onecall_runs DROP COLUMN handover_lease", "ALTER TABLE onecall_runs DROP COLUMN last_lease",
			"ALTER TABLE onecall_runs DROP COLUMN scope", "ALTER TABLE onecall_runs DROP COLUMN undos", "DROP TABLE onecall_state",
			"DROP TABLE onecall_state_owners", "UPDATE onecall_meta SET version = 1") {
			if _, err := db.Exec(query); err != nil {
				t.Fatal(err)
			}
		}
		d = open()
		mustWrite(t, d, typical("run_b", true))
		for _, id := range []string{"run_a", "run_b"} {
			got, err := d.Load(t.Context(), id, 0, 0)
			if err != nil || len(got.Segments) != 1 || got.Written == 1 != (id == "run_b") || got.Row.Parent != "" || got.Row.Batch {
				t.Errorf("%s: %+v, %v; want one segment, counted in the newer run alone, no parent and no batch", id, got, err)
			}
		}
	}
	t.Run("sqlite", func(t *testing.T) {
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		test(t, "sqlite", db, func() journal.Driver { return openSQLite(t, path) })
	})
	t.Run("postgres", func(t *testing.T) {
		url := shared.Start(t).Database(t)
		db, err := sql.Open("pgx", url)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		test(t, "pgx", db, func() journal.Driver { return openPostgres(t, url) })
	})
}

// makeOlder gives a database the tables of an older version, without some columns of its runs.
func makeOlder(t *testing.T, driver, where string, version int, columns ...string) {
	t.Helper()
	db, err := sql.Open(driver, where)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	changes := append(asOfVersion7(driver), fmt.Sprint("UPDATE onecall_meta SET version = ", version))
	if version < 7 {
		changes = append(changes, "DROP TABLE onecall_state", "DROP TABLE onecall_state_owners")
	}
	for _, column := range columns {
		changes = append(changes, "ALTER TABLE onecall_runs DROP COLUMN "+column)
	}
	for _, change := range changes {
		if _, err := db.Exec(change); err != nil {
			t.Fatal(err)
		}
	}
}

// asOfVersion7 returns the statements after which the tables are those of version 7, but for its number.
func asOfVersion7(driver string) []string {
	end := map[string]string{"sqlite": "DROP TRIGGER onecall_end_pieces", "pgx": "SELECT 1"}[driver]
	return []string{end, "DROP TABLE onecall_pieces", "ALTER TABLE onecall_days DROP COLUMN sizes",
		"DROP INDEX onecall_functions_caller", "DROP INDEX onecall_functions_failed",
		"DROP INDEX onecall_functions_both", "DROP INDEX onecall_functions_unfilled", "ALTER TABLE onecall_functions DROP COLUMN caller",
		"ALTER TABLE onecall_functions DROP COLUMN failed",
		"ALTER TABLE onecall_runs DROP COLUMN undo_left", "DROP INDEX IF EXISTS onecall_runs_last"}
}

// TestBeforeCallers: the functions of an older version's runs do not say whose runs they are and whether those are not ok. Lists are right
// all the same, while the rows are filled in, and afterwards.
func TestBeforeCallers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	for name, at := range map[string]struct{ driver, where string }{"sqlite": {"sqlite", path},
		"postgres": {"pgx", shared.Start(t).Database(t)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openAt(t, at.where)
			const runs = 11_000 // of two functions each: more than an Expire fills in
			list := make([]journal.Write, runs)
			for i := range list {
				list[i] = typical(newID(i), true)
				list[i].Row.Began, list[i].Days = time.UnixMicro(int64(i)), nil
				if i%100 == 0 {
					list[i].Row.Caller, list[i].Row.Status = "rare", journal.Failed
				}
			}
			last := &list[runs-1]
			last.Row.Status, last.Release = journal.Running, false
			for part := range slices.Chunk(list, 500) { // a busy machine cannot write all of them within a write's time
				mustWrite(t, d, part...)
			}
			mustWrite(t, d, journal.Write{ID: last.ID, Lease: 1, Release: true})
			d.Close()
			makeOlder(t, at.driver, at.where, 7)
			d = openAt(t, at.where)
			caller := "rare"
			check := func(when string, notOK int) {
				for want, f := range map[int]journal.Filter{runs / 100: {Callers: []string{caller}}, notOK: {NotOK: true}, notOK - 1: {Status: journal.Failed}} {
					if f.Function = "fs.read_text_file"; notOK == runs/100 && f.Status != "" {
						continue // as many are not ok as have failed
					}
					if rows, err := d.List(t.Context(), &f); len(rows) != want || err != nil {
						t.Errorf("%s: %d runs of %+v, want %d: %v", when, len(rows), f, want, err)
					}
				}
			}
			check("older", runs/100+1)
			db, err := sql.Open(at.driver, at.where)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			left := func(condition string) (n int) {
				if err := db.QueryRow("SELECT count(*) FROM onecall_functions WHERE " + condition).Scan(&n); err != nil {
					t.Error(err)
				}
				return n
			}
			if n := left("caller IS NULL"); n != 2*runs {
				t.Errorf("%d rows lack the caller, want all", n)
			}
			for before := 2 * runs; before > 0; {
				if err := d.Expire(t.Context(), time.UnixMicro(0), time.UnixMicro(0)); err != nil {
					t.Fatal(err)
				}
				n := left("caller IS NULL")
				if n >= before || before == 2*runs && n == 0 {
					t.Fatalf("%d rows lack the caller after an Expire, before it %d did: want fewer, and not all at once", n, before)
				}
				before = n
				check("filled in", runs/100+1)
			}
			if n := left("failed <> 0"); n != 2*(runs/100+1) {
				t.Errorf("%d rows say that their run is not ok", n)
			}
			rec, err := d.Acquire(t.Context(), last.ID, nil)
			if err != nil {
				t.Fatal(err)
			}
			last.Row.Status, last.Row.Lease = journal.OK, rec.Row.Lease
			mustWrite(t, d, journal.Write{ID: last.ID, Lease: rec.Row.Lease, Row: last.Row, Release: true})
			check("the last has ended", runs/100)
		})
	}
}

// TestOlderBeside: what a process of an older version writes beside a newer one is in lists at once, and is filled in, too.
func TestOlderBeside(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	for name, at := range map[string]struct{ driver, where string }{"sqlite": {"sqlite", path},
		"postgres": {"pgx", shared.Start(t).Database(t)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openAt(t, at.where)
			caller, written := "rare", 0
			write := func(older bool) {
				w := typical(newID(written), true)
				w.Row.Caller, w.Row.Status, w.Days = caller, journal.Failed, nil
				mustWrite(t, d, w)
				if written++; !older {
					return
				}
				db, err := sql.Open(at.driver, at.where)
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				each := map[string]string{"sqlite": "json_each", "pgx": "json_array_elements_text"}[at.driver]
				for _, query := range []string{
					"DELETE FROM onecall_functions WHERE run = (SELECT n FROM onecall_runs WHERE id = '" + w.ID + "')",
					"INSERT INTO onecall_functions (fn, began, run) SELECT f.value, r.began, r.n FROM onecall_runs r, " + each +
						"(r.functions) f WHERE r.id = '" + w.ID + "' ON CONFLICT DO NOTHING",
				} {
					if _, err := db.Exec(query); err != nil {
						t.Fatal(err)
					}
				}
			}
			check := func(when string) {
				for _, f := range []journal.Filter{{}, {Callers: []string{caller}}, {NotOK: true}, {Callers: []string{caller}, NotOK: true}} {
					f.Function = "fs.read_text_file"
					if rows, err := d.List(t.Context(), &f); len(rows) != written || err != nil {
						t.Errorf("%s: %d runs of %+v, want %d: %v", when, len(rows), f, written, err)
					}
				}
			}
			for range 2 {
				write(false)
				check("of the newer version")
				write(true)
				check("of the older version")
				if err := d.Expire(t.Context(), time.UnixMicro(0), time.UnixMicro(0)); err != nil {
					t.Fatal(err)
				}
				check("filled in")
			}
		})
	}
}

// TestBeforeCounting: the segments of a run that an older version began are not counted, whatever is added to them.
func TestBeforeCounting(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	for name, at := range map[string]struct{ driver, where string }{"sqlite": {"sqlite", path},
		"postgres": {"pgx", shared.Start(t).Database(t)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openAt(t, at.where)
			mustWrite(t, d, typical("run_a", false))
			d.Close()
			makeOlder(t, at.driver, at.where, 3, "segments", "handover_lease", "last_lease", "scope", "undos")
			d = openAt(t, at.where)
			rec, err := d.Acquire(t.Context(), "run_a", nil)
			if err != nil {
				t.Fatal(err)
			}
			count := len(rec.Segments)
			lease := rec.Row.Lease
			mustWrite(t, d, journal.Write{ID: "run_a", Lease: lease, Segment: &journal.Segment{Lease: lease, First: 9, Events: []byte("e")}})
			mustWrite(t, d, typical("run_b", false))
			if rec, err = d.Load(t.Context(), "run_a", 0, 0); err != nil || len(rec.Segments) != count+1 || rec.Written >= 0 {
				t.Errorf("the older run has %d segments and counts %d, error %v; want %d and a negative count", len(rec.Segments), rec.Written, err,
					count+1)
			}
			if rec, err = d.Load(t.Context(), "run_b", 0, 0); err != nil || rec.Written != len(rec.Segments) {
				t.Errorf("the new run has %d segments and counts %d, error %v", len(rec.Segments), rec.Written, err)
			}
		})
	}
}

// TestBecomesNewer: a newer version migrates the tables while an older one uses them. Check of the older one reports that.
func TestBecomesNewer(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	for name, at := range map[string]struct{ driver, where string }{"sqlite": {"sqlite", path},
		"postgres": {"pgx", shared.Start(t).Database(t)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openAt(t, at.where)
			if err := d.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			db, err := sql.Open(at.driver, at.where)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			var limit int
			if err := db.QueryRow("SELECT version FROM onecall_meta").Scan(&limit); err != nil {
				t.Fatal(err)
			}
			if _, err := db.Exec("UPDATE onecall_meta SET version = 99"); err != nil {
				t.Fatal(err)
			}
			wantUnavailable(t, d.Check(t.Context()), "newer version of onecall (its tables are of version 99")
			if _, err := db.Exec(fmt.Sprint("UPDATE onecall_meta SET version = ", limit)); err != nil {
				t.Fatal(err)
			}
			eventually(t, d.Check)
		})
	}
}

// TestBeforeHandovers: rows of an older version do not say whether workers have their runs. The events do, at each look; once the run goes
// on, its row says it, too.
func TestBeforeHandovers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	for name, at := range map[string]struct{ driver, where string }{"sqlite": {"sqlite", path},
		"postgres": {"pgx", shared.Start(t).Database(t)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, _ := journalAt(t, at.where)
			ids := []string{waitingRun(t, j, true), waitingRun(t, j, false)}
			j.Close()
			makeOlder(t, at.driver, at.where, 4, "handover_lease", "last_lease", "scope", "undos")
			j, d := journalAt(t, at.where)
			for i, want := range []int64{1, 0} {
				stored, err := d.LoadRow(t.Context(), ids[i])
				if err != nil || stored.HandoverLease >= 0 {
					t.Errorf("run %d is stored as %+v, %v, want a negative lease of its hand-over", i, stored, err)
				}
				row, err := j.ReadRow(t.Context(), ids[i], "ann", "s")
				if err != nil || row.HandoverLease != want || row.LastLease != 1 || row.Scope != "s" {
					t.Errorf("run %d is read as %+v, %v, want the hand-over %d, lease 1 and scope s", i, row, err, want)
				}
			}
			for _, want := range []int{2, 1} { // both may be at workers, until the second one goes on
				if rows, err := j.List(t.Context(), &journal.Filter{AtWorkers: true}); len(rows) != want || err != nil {
					t.Errorf("%d runs may be at workers, want %d: %v", len(rows), want, err)
				}
				past, err := j.Acquire(t.Context(), ids[1], nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := j.Resume(past, nil).EndUnfinished(journal.Waiting, "", "it waits"); err != nil {
					t.Fatal(err)
				}
			}
			row, err := d.LoadRow(t.Context(), ids[1])
			if err != nil || row.HandoverLease != 0 || row.LastLease != 3 || row.Scope != "s" {
				t.Errorf("after it went on, the run is stored as %+v, %v, want no hand-over, lease 3 and scope s", row, err)
			}
		})
	}
}

// journalAt opens a database, and a journal over it.
func journalAt(t *testing.T, where string) (*journal.Journal, journal.Driver) {
	t.Helper()
	d := openAt(t, where)
	j, err := journal.New(d, &journal.Options{Key: make([]byte, journal.MinKeyBytes)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j, d
}

// waitingRun returns the id of a run that waits. handed: for workers.
func waitingRun(t *testing.T, j *journal.Journal, handed bool) string {
	t.Helper()
	run := j.Begin(&journal.Start{Caller: "ann", Scope: "s", Text: []byte("{}"), Hash: func() string { return "" }})
	if handed {
		run.HandOver()
	}
	if err := run.EndUnfinished(journal.Waiting, "", ""); err != nil {
		t.Fatal(err)
	}
	return run.ID()
}
