package sqljournal

import (
	"context"
	"encoding/json"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// countParts counts the parts of some runs: all of each run, then those that are not ok by their status and, while they run, their holder.
// Indexes find the rows that it counts.
const countParts = `SELECT parent, 'ok', '', count(*) FROM onecall_runs WHERE parent IN (SELECT value FROM EACH($1) AS v) AND parent <> ''
	GROUP BY parent
	UNION ALL SELECT parent, status, CASE WHEN status <> 'running' THEN '' WHEN batch <> 0 THEN 'batch' ELSE holder END AS held, count(*)
	FROM onecall_runs WHERE parent IN (SELECT value FROM EACH($1) AS v) AND parent <> '' AND status <> 'ok' GROUP BY parent, status, held`

// Parts implements journal.Driver.
func (d *Driver) Parts(ctx context.Context, runs []string) (counts map[string]journal.Parts, err error) {
	ids := make([]string, len(runs))
	for i, id := range runs {
		ids[i] = validText(id)
	}
	list, _ := json.Marshal(ids) // strings can always be encoded
	err = d.withDatabase(ctx, listTimeoutFactor*d.timeout, func(ctx context.Context, db *database) error {
		counts, err = db.countParts(ctx, string(list))
		return err
	})
	if err != nil {
		return nil, err
	}
	return counts, nil
}

func (db *database) countParts(ctx context.Context, list string) (counts map[string]journal.Parts, err error) {
	var rows []journal.Row
	var holders []string
	var numbers []int
	err = forEachRow(ctx, db.read, func(scan func(...any) error) error {
		var r journal.Row
		var holder string
		var n int
		err := scan(&r.Parent, &r.Status, &holder, &n)
		r.Batch = holder == "batch"
		rows, holders, numbers = append(rows, r), append(holders, holder), append(numbers, n)
		return err
	}, db.SQL(countParts), list)
	if err != nil {
		return nil, err
	}
	if err := db.markInterrupted(ctx, rows, holders); err != nil {
		return nil, err
	}
	counts = map[string]journal.Parts{}
	for i, r := range rows {
		parts := counts[r.Parent]
		if parts == nil {
			parts = journal.Parts{}
			counts[r.Parent] = parts
		}
		// The row with status ok counts all parts of a run; those with another status are subtracted again.
		if parts[r.Status] += numbers[i]; r.Status != journal.OK {
			parts[journal.OK] -= numbers[i]
		}
	}
	for _, parts := range counts {
		if parts[journal.OK] == 0 {
			delete(parts, journal.OK)
		}
	}
	return counts, nil
}
