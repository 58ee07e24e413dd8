//go:build unix

package sqljournal_test

import (
	"os"
	"sync"
	"testing"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/chain/journal/journaltest"
	"github.com/onecall-mcp/onecall/chain/journal/sqljournal"
	"github.com/onecall-mcp/onecall/chain/journal/sqljournal/postgrestest"
	"github.com/onecall-mcp/onecall/internal/polltest"
)

var shared struct {
	once   sync.Once
	server *postgrestest.Server
	err    error
}

// sharedPostgres returns a PostgreSQL server for all tests that do not stop it; the first call starts it. It skips the test if PostgreSQL
// is not installed.
func sharedPostgres(t testing.TB) *postgrestest.Server {
	t.Helper()
	shared.once.Do(func() { shared.server, shared.err = postgrestest.New() })
	return postgrestest.Usable(t, shared.server, shared.err)
}

func openPostgres(t testing.TB, url string) *sqljournal.Driver {
	t.Helper()
	d, err := sqljournal.OpenPostgres(url, nil)
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
	if shared.server != nil {
		shared.server.Remove()
	}
	os.Exit(code)
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	s := sharedPostgres(t)
	journaltest.Run(t, func(t *testing.T) journaltest.Store {
		url := s.Database(t)
		return journaltest.Store{Shared: true, Open: func(t *testing.T) journal.Driver { return openPostgres(t, url) }}
	})
}
