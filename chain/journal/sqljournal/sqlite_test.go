package sqljournal_test

import (
	"path/filepath"
	"testing"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/chain/journal/journaltest"
	"github.com/onecall-mcp/onecall/chain/journal/sqljournal"
	"github.com/onecall-mcp/onecall/internal/polltest"
)

func openSQLite(t testing.TB, path string) *sqljournal.Driver {
	t.Helper()
	d, err := sqljournal.OpenSQLite(path, &sqljournal.Options{Timeout: polltest.TooLong}) // a busy machine writes late
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	journaltest.Run(t, func(t *testing.T) journaltest.Store {
		// The folder does not exist yet, and the name has characters that need escaping in the URI that SQLite opens.
		path := filepath.Join(t.TempDir(), "state", "a b?c%41#d.db")
		return journaltest.Store{Shared: true, Open: func(t *testing.T) journal.Driver { return openSQLite(t, path) }}
	})
}
