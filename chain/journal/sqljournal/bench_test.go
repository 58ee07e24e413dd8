//go:build unix

package sqljournal_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/chain/journal/journaltest"
	"github.com/onecall-mcp/onecall/fault"
)

// typical returns the write of a whole successful run of ten reads. Without release, its lease stays taken.
func typical(id string, release bool) journal.Write {
	now := time.Now()
	r := &journal.Row{ID: id, Caller: "token:ci", Hash: strings.Repeat("a", 43),
		Functions: []string{"memory.read_graph", "fs.read_text_file"}, Status: journal.OK,
		Began: now, Last: now, Expires: now.Add(24 * time.Hour), Steps: 10, Calls: 10, Took: 3 * time.Millisecond, Lease: 1}
	w := journal.Write{ID: id, Lease: 1, New: true, Row: r, Release: release, Tokens: 100, Stored: 5000,
		Segment: &journal.Segment{Lease: 1, First: 1, Events: []byte("[" + strings.Repeat("e", 1498) + "]"), Retained: make([]byte, 300)}}
	if release {
		times := journal.Times{}
		times.Count(3 * time.Millisecond)
		for _, function := range append(r.Functions, "") {
			w.Days = append(w.Days, journal.Day{Day: journal.DayOf(now), Caller: r.Caller, Function: function, Count: 5, Calls: 10, Tokens: 100,
				Stored: 5000, Times: times})
		}
	}
	return w
}

func newID(n int) string { return fmt.Sprintf("run_%026d", n) }

// BenchmarkWrite measures a batch of runs, and one durable event of a run under way; ns/write is the time for one run of the batch. The
// baseline is an empty commit of the same database.
func BenchmarkWrite(b *testing.B) {
	stores := map[string]func(b *testing.B) journal.Driver{
		"sqlite":   func(b *testing.B) journal.Driver { return openSQLite(b, filepath.Join(b.TempDir(), "journal.db")) },
		"postgres": func(b *testing.B) journal.Driver { return openPostgres(b, shared.Start(b).Database(b)) },
	}
	for name, open := range stores {
		for _, size := range []int{1, 100} {
			b.Run(fmt.Sprintf("%s/runs=%d", name, size), func(b *testing.B) {
				d, n := open(b), 0
				for b.Loop() {
					list := make([]journal.Write, size)
					for i := range list {
						list[i] = typical(newID(n), true)
						n++
					}
					mustWrite(b, d, list...)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/write")
				if rows, err := d.List(b.Context(), &journal.Filter{}); len(rows) != n || err != nil {
					b.Fatalf("%d runs, want %d: %v", len(rows), n, err)
				}
			})
		}
		b.Run(name+"/event", func(b *testing.B) {
			d, n := open(b), 0
			first := typical(newID(0), false)
			mustWrite(b, d, first)
			for b.Loop() {
				n++
				mustWrite(b, d, journal.Write{ID: first.ID, Lease: 1, Row: first.Row, Segment: &journal.Segment{Lease: 1, First: 1 + n,
					Events: make([]byte, 250)}})
			}
			if got, err := d.Load(b.Context(), first.ID, 0, 0); err != nil || len(got.Segments) != n+1 {
				b.Fatalf("loaded run %v, %v; want %d segments", got, err, n+1)
			}
		})
	}
	for name, open := range stores {
		b.Run(name+"/take", func(b *testing.B) { // acquiring and releasing a run of a hundred writes
			d := open(b)
			list := []journal.Write{typical(newID(0), false)}
			for n := range 200 {
				more := &journal.Segment{Lease: 1, First: 2 + n, Events: make([]byte, 250), Results: make([]byte, 500)}
				list = append(list, journal.Write{ID: newID(0), Lease: 1, Segment: more})
			}
			mustWrite(b, d, list...)
			lease := int64(1)
			for b.Loop() {
				mustWrite(b, d, journal.Write{ID: newID(0), Lease: lease, Release: true})
				rec, err := d.Acquire(b.Context(), newID(0), nil)
				if err != nil || len(rec.Segments) != 201 {
					b.Fatalf("acquired run %v, %v; want 201 segments", rec, err)
				}
				lease = rec.Row.Lease
			}
		})
	}
	b.Run("sqlite/commit", func(b *testing.B) {
		db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "plain.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
		commits(b, db, err)
	})
	b.Run("postgres/commit", func(b *testing.B) {
		db, err := sql.Open("pgx", shared.Start(b).Database(b))
		commits(b, db, err)
	})
}

func commits(b *testing.B, db *sql.DB, err error) {
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("CREATE TABLE t (n BIGINT)"); err != nil {
		b.Fatal(err)
	}
	n := 0
	for b.Loop() {
		n++
		if _, err := db.Exec("INSERT INTO t VALUES (1)"); err != nil {
			b.Fatal(err)
		}
	}
	var got int
	if err := db.QueryRow("SELECT count(*) FROM t").Scan(&got); got != n || err != nil {
		b.Fatalf("%d rows, want %d: %v", got, n, err)
	}
}

// BenchmarkSize measures the disk space of runs of ten reads.
func BenchmarkSize(b *testing.B) {
	for b.Loop() {
		path, n := filepath.Join(b.TempDir(), "journal.db"), 0
		d := openSQLite(b, path)
		for range 50 {
			list := make([]journal.Write, 200)
			for i := range list {
				list[i] = typical(newID(n*7919%1_000_003), true)
				n++
			}
			mustWrite(b, d, list...)
		}
		d.Close()
		info, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		bytesPerStep := float64(info.Size()) / float64(n*10)
		if b.ReportMetric(bytesPerStep, "B/step"); bytesPerStep > 400 {
			b.Errorf("%.0f bytes per step, want at most 400", bytesPerStep)
		}
	}
}

// BenchmarkMillion looks for runs among a million: the newest, those of a function or caller that is rare, and those that failed.
func BenchmarkMillion(b *testing.B) {
	if testing.Short() {
		b.Skip("creates a million rows first")
	}
	path := os.Getenv("ONECALL_TEST_MILLION") // the database stays for the next time
	if path == "" {
		path = filepath.Join(b.TempDir(), "million.db")
	}
	d := openSQLite(b, path)
	if rows, err := d.List(b.Context(), &journal.Filter{Limit: 1}); err != nil {
		b.Fatal(err)
	} else if len(rows) == 0 {
		journaltest.Fill(b, path, "", 1_000_000)
	}
	rare, common, waits, since := "token:7", "token:1001", "token:50", time.UnixMicro(1_790_000_000_000_000)
	middle := &journal.Position{Began: time.UnixMicro(1_790_000_000_000_000 + 500_000*86_400), ID: fmt.Sprintf("run_%026d", 500_000*7919%1_000_003)}
	for _, test := range []struct {
		name   string
		filter journal.Filter
		want   int
	}{
		{"newest", journal.Filter{}, 50}, {"function", journal.Filter{Function: "rare.call"}, 10}, {"common function", journal.Filter{Function: "fs.read"}, 50},
		{"status", journal.Filter{Status: journal.Failed}, 50}, {"waiting", journal.Filter{Status: journal.Waiting}, 10}, {"caller", journal.Filter{Callers: []string{rare}}, 50},
		{"ok", journal.Filter{Status: journal.OK}, 50}, {"chain", journal.Filter{Chains: []string{"chain 3"}}, 50},
		{"a second", journal.Filter{Since: since, Until: since.Add(time.Second)}, 12},
		{"failed of a function", journal.Filter{Status: journal.Failed, Function: "rare.call"}, 1}, {"nobody", journal.Filter{Callers: []string{common}}, 0},
		{"function, nobody", journal.Filter{Function: "fs.read", Callers: []string{common}}, 0},
		{"rare function of a caller", journal.Filter{Function: "rare.call", Callers: []string{rare}}, 0},
		{"function, not ok", journal.Filter{Function: "rare.call", NotOK: true}, 1},
		{"function of a caller, not ok", journal.Filter{Function: "fs.read", Callers: []string{rare}, NotOK: true}, 0},
		{"function of a caller", journal.Filter{Function: "memory.read", Callers: []string{rare}}, 50},
		{"waiting of a caller", journal.Filter{Status: journal.Waiting, Callers: []string{rare}}, 0},
		{"waiting for approval", journal.Filter{Status: journal.Waiting, Code: fault.ApprovalRequired}, 0},
		{"running", journal.Filter{Status: journal.Running}, 0},
		{"a page in the middle", journal.Filter{Before: middle}, 50},
		{"a page of a function", journal.Filter{Function: "fs.read", Before: middle}, 50},
		{"a page of a function, not ok", journal.Filter{Function: "memory.read", NotOK: true, Before: middle}, 50},
		{"at workers", journal.Filter{AtWorkers: true, Callers: []string{waits}}, 10},
		{"id", journal.Filter{IDPrefix: "run_0000000000000000000012345"}, 10},
	} {
		b.Run(test.name, func(b *testing.B) {
			test.filter.Limit = 50
			within(b, 200*time.Millisecond, func() int {
				rows, err := d.List(b.Context(), &test.filter)
				if err != nil {
					b.Fatal(err)
				}
				return len(rows)
			}, test.want)
		})
	}
	b.Run("days", func(b *testing.B) {
		within(b, 200*time.Millisecond, func() int {
			days, err := d.Days(b.Context(), &journal.Filter{})
			if err != nil {
				b.Fatal(err)
			}
			return len(days)
		}, 9000)
	})
}

func within(b *testing.B, bound time.Duration, f func() int, want int) {
	n := 0
	for b.Loop() {
		n++
		if got := f(); got != want {
			b.Fatalf("%d, want %d", got, want)
		}
	}
	if perCall := b.Elapsed() / time.Duration(n); perCall > bound {
		b.Errorf("took %v, want at most %v", perCall, bound)
	}
}
