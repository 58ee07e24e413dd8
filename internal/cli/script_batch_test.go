package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/chain/journal/sqljournal"
	"github.com/onecall-mcp/onecall/fault"
)

// batch NAME OK FAILED writes a batch with as many parts of each kind to the user's journal, which an earlier run has made, and sets the
// variable NAME to the batch's id.
func batch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: batch name ok failed")
	}
	folder := filepath.Join(ts.Getenv("HOME"), ".local", "state", "onecall")
	key, err := os.ReadFile(filepath.Join(folder, "journal.key"))
	ts.Check(err)
	driver, err := sqljournal.OpenSQLite(filepath.Join(folder, "journal.db"), nil)
	ts.Check(err)
	j, err := journal.New(driver, &journal.Options{Key: key})
	ts.Check(err)
	defer j.Close()
	id, err := j.BeginBatch(context.Background(), &journal.Start{Chain: "nightly"})
	ts.Check(err)
	for i, status := range []journal.Status{journal.OK, journal.Failed} {
		n, err := strconv.Atoi(args[1+i])
		ts.Check(err)
		for range n {
			segment := j.Begin(&journal.Start{Parent: id, Functions: []string{"fs.cat"}, Hash: func() string { return "" }, Text: []byte(`{}`)})
			if status == journal.Failed {
				ts.Check(segment.EndUnfinished(status, fault.Timeout, ""))
			}
			segment.Answered(0, 0)
		}
	}
	ts.Setenv(args[0], id)
}
