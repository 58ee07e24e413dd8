//go:build unix

package pgstore_test

import (
	"os"
	"testing"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/pgstore"
	"github.com/onecall-mcp/onecall/budget/storetest"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/internal/sqldb/postgrestest"
)

var shared postgrestest.Shared

func TestMain(m *testing.M) {
	polltest.MoreParallel()
	code := m.Run()
	shared.Remove()
	os.Exit(code)
}

func open(t testing.TB, o pgstore.Options) *pgstore.Store {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = polltest.TooLong // a busy machine answers late
	}
	s, err := pgstore.New(&o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	server := shared.Start(t)
	storetest.Run(t, func(t *testing.T) budget.Driver { return open(t, pgstore.Options{URL: server.Database(t)}) })
}
