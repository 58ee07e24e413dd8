//go:build unix

package sqljournal_test

import (
	"database/sql"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/chain/journal/journaltest"
	"github.com/onecall-mcp/onecall/chain/journal/sqljournal"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/internal/sqldb/postgrestest"
)

var shared postgrestest.Shared

func openPostgres(t testing.TB, url string) *sqljournal.Driver {
	t.Helper()
	d, err := sqljournal.OpenPostgres(url, &sqljournal.Options{Timeout: polltest.TooLong}) // a busy machine answers late
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestMain(m *testing.M) {
	if writeAsChild() {
		return // a test started this process to write to a database, and it has ended
	}
	polltest.MoreParallel()
	code := m.Run()
	shared.Remove()
	os.Exit(code)
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	s := shared.Start(t)
	journaltest.Run(t, func(t *testing.T) journaltest.Store {
		url := s.Database(t)
		return journaltest.Store{Shared: true, Open: func(t *testing.T) journal.Driver { return openPostgres(t, url) }}
	})
}

// TestPostgresRenewsBesideQueries: a process keeps its leases while slow queries use all connections of its driver.
func TestPostgresRenewsBesideQueries(t *testing.T) {
	t.Parallel()
	url := shared.Start(t).Database(t)
	d := openPostgres(t, url)
	mustWrite(t, d, typical("run_a", false))
	admin, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	lock, err := admin.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Rollback() //nolint:errcheck // it only holds the lock
	if _, err := lock.Exec("LOCK TABLE onecall_runs"); err != nil {
		t.Fatal(err)
	}
	var (
		lists sync.WaitGroup
		ended atomic.Int32
	)
	for range 20 {
		lists.Go(func() { _, _ = d.List(t.Context(), &journal.Filter{}); ended.Add(1) })
	}
	polltest.Until(t, "ten queries wait for the lock", func() bool {
		var waiting int
		err := admin.QueryRow("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").
			Scan(&waiting)
		return err == nil && waiting == 10
	})
	liveUntil := func() (at time.Time) {
		if err := admin.QueryRow("SELECT live_until FROM onecall_holders").Scan(&at); err != nil {
			t.Error(err)
		}
		return at
	}
	before := liveUntil()
	polltest.Until(t, "the lease is renewed", func() bool { return liveUntil().After(before) })
	if n := ended.Load(); n > 0 {
		t.Errorf("the lease was renewed only after %d queries had ended", n)
	}
	if err := lock.Rollback(); err != nil {
		t.Error(err)
	}
	lists.Wait()
}
