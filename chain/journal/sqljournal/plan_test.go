package sqljournal

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// TestListPlans: SQLite finds and orders the rows of a list by an index, and sorts none.
func TestListPlans(t *testing.T) {
	t.Parallel()
	d, err := OpenSQLite(filepath.Join(t.TempDir(), "journal.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	caller := "ann"
	for _, test := range []struct {
		name, index string
		filter      journal.Filter
	}{
		{"newest", "onecall_runs_began", journal.Filter{}},
		{"caller", "onecall_runs_caller (caller=?", journal.Filter{Callers: []string{caller}}},
		{"caller, no parts", "onecall_runs_caller (caller=?", journal.Filter{Callers: []string{caller}, Parent: new(string)}},
		{"not ok", "onecall_runs_status", journal.Filter{Status: journal.Failed}},
		{"waiting for approval", "onecall_runs_status (status=?", journal.Filter{Status: journal.Waiting, Code: fault.ApprovalRequired}},
		{"waiting for approval, several callers", "onecall_runs_status (status=?",
			journal.Filter{Status: journal.Waiting, Code: fault.ApprovalRequired, Callers: []string{caller, "bob"}}},
		{"function", "PRIMARY KEY (fn=?", journal.Filter{Function: "f"}},
		{"function of a caller", "onecall_functions_caller (fn=? AND caller=?", journal.Filter{Function: "f", Callers: []string{caller}}},
		{"function, not ok", "onecall_functions_failed (fn=?", journal.Filter{Function: "f", NotOK: true}},
		{"function, failed", "onecall_functions_failed (fn=?", journal.Filter{Function: "f", Status: journal.Failed}},
		{"function of a caller, not ok", "onecall_functions_both (fn=? AND caller=?",
			journal.Filter{Function: "f", Callers: []string{caller}, NotOK: true}},
	} {
		for _, before := range []*journal.Position{nil, {ID: "run_a"}} {
			f := test.filter
			f.Before, f.Limit = before, 50
			query, args := listQuery(&f, true)
			plan, err := planOf(t, d, query, args...)
			text := strings.Join(plan, "; ")
			if err != nil || !strings.Contains(text, test.index) || strings.Contains(text, "TEMP B-TREE") {
				t.Errorf("%s, from %v: %s, want %s and no sorting: %v", test.name, before, text, test.index, err)
			}
			if before != nil && !strings.Contains(plan[0], "began<?") && !strings.Contains(plan[0], "(began,n)<(?,?)") &&
				!strings.Contains(plan[0], "(began,run)<(?,?)") {
				t.Errorf("%s: %s reads what is before the position", test.name, text)
			}
		}
	}
}

// TestUnfilledPlans: rows that an older version has written are found by their index alone.
func TestUnfilledPlans(t *testing.T) {
	t.Parallel()
	d, err := OpenSQLite(filepath.Join(t.TempDir(), "journal.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, query := range []string{countUnfilled, strings.Replace(inSQLite.SQL(unfilled), "$1", "9", 1)} {
		plan, err := planOf(t, d, query)
		if text := strings.Join(plan, "; "); err != nil || !strings.Contains(text, "onecall_functions_unfilled") || strings.Contains(text, "B-TREE") {
			t.Errorf("%s: %s, want the index and no sorting: %v", query, text, err)
		}
	}
}

// planOf returns the lines of SQLite's plan for a query.
func planOf(t *testing.T, d *Driver, query string, args ...any) (plan []string, err error) {
	err = d.withDatabase(t.Context(), d.timeout, func(ctx context.Context, db *database) error {
		return forEachRow(ctx, db.read, func(scan func(...any) error) error {
			var id, parent, unused int
			var line string
			err := scan(&id, &parent, &unused, &line)
			plan = append(plan, line)
			return err
		}, "EXPLAIN QUERY PLAN "+query, args...)
	})
	return plan, err
}
