//go:build unix

package pgstore_test

import (
	"os"
	"sync"
	"testing"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/pgstore"
	"github.com/onecall-mcp/onecall/budget/storetest"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/internal/sqldb/postgrestest"
)

var shared struct {
	once   sync.Once
	server *postgrestest.Server
	err    error
}

// sharedServer returns a server for all tests that do not stop it; the first call starts it. It skips the test if PostgreSQL is not
// installed.
func sharedServer(t testing.TB) *postgrestest.Server {
	t.Helper()
	shared.once.Do(func() { shared.server, shared.err = postgrestest.New() })
	return postgrestest.Usable(t, shared.server, shared.err)
}

func TestMain(m *testing.M) {
	polltest.MoreParallel()
	code := m.Run()
	if shared.server != nil {
		shared.server.Remove()
	}
	os.Exit(code)
}

func open(t testing.TB, o pgstore.Options) *pgstore.Store {
	t.Helper()
	s, err := pgstore.New(&o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	storetest.Run(t, func(t *testing.T) budget.Driver { return open(t, pgstore.Options{URL: server.Database(t)}) })
}
