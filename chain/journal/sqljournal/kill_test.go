//go:build unix

package sqljournal_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/chain/journal/sqljournal"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/internal/sqldb/postgrestest"
)

// kills returns how often a process is killed: often in CI, and a tenth of that elsewhere.
func kills(often int) int {
	if os.Getenv("ONECALL_TEST_CI") == "" {
		return often / 10
	}
	return often
}

// killSome kills processes that write to a database, at random points, and checks that all acknowledged writes exist.
func killSome(t *testing.T, where string, n int, then func(prefix string)) {
	d, err := openAny(where)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	for i := range n {
		prefix, acknowledged := fmt.Sprintf("run_%d_", i), 0
		w := startWriter(t, where, prefix, "")
		for range rand.IntN(20) {
			if w.lines.Scan() {
				_, _ = fmt.Sscan(w.lines.Text(), &acknowledged)
			}
		}
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond) // so that the kill comes between two lines of its output
		acknowledged = w.kill(acknowledged)
		checkRuns(t, d, prefix, acknowledged)
		if acknowledged > 0 {
			then(prefix + "a")
		}
	}
}

// TestKilledSQLite: the leases of a process that was killed are free at once.
func TestKilledSQLite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	other := openSQLite(t, path)
	killSome(t, path, kills(100), func(id string) {
		if rec, err := other.Acquire(t.Context(), id, nil); err != nil || rec.Row.Lease != 2 {
			t.Fatalf("Acquire of %s after the kill returns %+v, %v; want lease 2", id, rec, err)
		}
	})
	locks := func() int {
		lockFiles, _ := filepath.Glob(path + "-*.lock")
		return len(lockFiles)
	}
	if before := locks(); before < 3 {
		t.Errorf("%d lock files after the kills, want at least 3", before)
	}
	if err := other.Expire(t.Context(), time.Now(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if after := locks(); after > 2 { // those of live processes
		t.Errorf("%d lock files after Expire, want at most 2", after)
	}
}

// TestKilledPostgres: the leases of a process that was killed are free after four seconds.
func TestKilledPostgres(t *testing.T) {
	t.Parallel()
	url := shared.Start(t).Database(t)
	other, last, at := openPostgres(t, url), "", time.Time{}
	killSome(t, url, kills(20), func(id string) { last, at = id, time.Now() })
	_, err := other.Acquire(t.Context(), last, nil)
	if time.Since(at) < 2*time.Second && !errors.Is(err, journal.ErrBusy) {
		t.Errorf("Acquire while the killed lease is valid: %v, want ErrBusy", err)
	}
	if err != nil {
		eventually(t, func(ctx context.Context) error { _, err := other.Acquire(ctx, last, nil); return err })
	}
}

// TestSleeperPostgres: the run of a process that slept too long was taken over, and the process writes nothing more of it.
func TestSleeperPostgres(t *testing.T) {
	t.Parallel()
	url := shared.Start(t).Database(t)
	other := openPostgres(t, url)
	w, acknowledged := startWriter(t, url, "run_", ""), 0
	for range 10 {
		w.lines.Scan()
		_, _ = fmt.Sscan(w.lines.Text(), &acknowledged)
	}
	if err := w.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var rec *journal.Record
	eventually(t, func(ctx context.Context) (err error) {
		rec, err = other.Acquire(ctx, "run_a", nil)
		return err
	})
	if err := w.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for range 2 * len(rec.Segments) { // skip lines that were printed before run_a was acquired, or that are about run_b
		w.lines.Scan()
	}
	_ = w.kill(0)
	if got := segmentsOf(t, other, "run_a"); got != len(rec.Segments) || got < acknowledged {
		t.Errorf("%d segments acquired, now the run has %d, want the same, at least %d", len(rec.Segments), got, acknowledged)
	}
	if got := segmentsOf(t, other, "run_b"); got <= len(rec.Segments) {
		t.Errorf("the run that was not acquired has %d segments, want more than %d", got, len(rec.Segments))
	}
}

// TestPostgresStops: while the server is down, each call fails soon and says why. When the server runs again, all acknowledged writes
// exist, and live drivers still have their leases.
func TestPostgresStops(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	url := s.Database(t)
	d, other := openPostgres(t, url), openPostgres(t, url)
	patient, err := sqljournal.OpenPostgres(url, &sqljournal.Options{Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { patient.Close() })
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT} {
		prefix := fmt.Sprintf("run_%d_", i)
		mustWrite(t, d, typical(prefix+"held", false))
		w, acknowledged := startWriter(t, url, prefix, ""), 0
		for range 10 {
			w.lines.Scan()
			_, _ = fmt.Sscan(w.lines.Text(), &acknowledged)
		}
		s.Stop(signal)
		acknowledged = w.kill(acknowledged)
		for _, d := range []*sqljournal.Driver{d, patient} { // the failures do not wait for the timeout
			_, err := d.Load(t.Context(), prefix+"a", 0, 0)
			wantUnavailable(t, err, "does not answer")
			_, err = d.Write(t.Context(), []journal.Write{typical(prefix+"new", true)})
			wantUnavailable(t, err, "does not answer")
		}
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
		eventually(t, func(ctx context.Context) error { _, err := d.Load(ctx, prefix+"held", 0, 0); return err })
		checkRuns(t, d, prefix, acknowledged)
		eventually(t, func(ctx context.Context) error { return holderIsAlive(ctx, db, prefix+"held") })
		eventually(t, func(ctx context.Context) error {
			if _, err := other.Acquire(ctx, prefix+"held", nil); !errors.Is(err, journal.ErrBusy) {
				return fmt.Errorf("Acquire of a run with a live holder: %w", err)
			}
			return nil
		})
		mustWrite(t, d, journal.Write{ID: prefix + "held", Lease: 1, Release: true})
	}
}

// holderIsAlive fails until the lease of a run has been renewed.
func holderIsAlive(ctx context.Context, db *sql.DB, run string) error {
	var holders int
	err := db.QueryRowContext(ctx, `SELECT count(*) FROM onecall_holders h JOIN onecall_runs r ON r.holder = h.id
	WHERE r.id = $1 AND h.live_until > clock_timestamp()`, run).Scan(&holders)
	if err == nil && holders == 0 {
		err = errors.New("the lease is not renewed")
	}
	return err
}

// eventually calls f until it succeeds.
func eventually(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), polltest.TooLong)
	defer cancel()
	var err error
	if !polltest.Try(ctx, func() bool {
		err = f(ctx)
		return err == nil
	}) {
		t.Fatal(err)
	}
}

// TestFullDisk: the file may not grow beyond a limit. A write that does not fit fails, reads still succeed, and all acknowledged writes
// exist.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	w := startWriter(t, path, "run_", "ulimit -f 2000;")
	acknowledged, report := 0, ""
	for w.lines.Scan() {
		if _, err := fmt.Sscan(w.lines.Text(), &acknowledged); err != nil {
			report += w.lines.Text() + "\n"
		}
	}
	if err := w.Wait(); err != nil || acknowledged < 5 || !strings.Contains(report, "journal.db cannot") ||
		!strings.Contains(report, "rows: 2 <nil>") {
		t.Errorf("%d writes acknowledged, %v, output %s; want at least 5, and the failure of journal.db", acknowledged, err, report)
	}
	d := openSQLite(t, path)
	checkRuns(t, d, "run_", acknowledged)
	mustWrite(t, d, typical("run_more", true))
}
