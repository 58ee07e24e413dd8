package history

import (
	"context"
	"slices"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// Hour sums up the runs that began within the last hour, at most the newest ten thousand.
type Hour struct {
	Sum
	Functions []Sum `json:"functions"` // the functions that the runs' chains call; Count is the number of runs, not of calls
	Chains    []Sum `json:"chains"`
	Callers   []Sum `json:"callers"`
}

const (
	maxHourRuns = 10_000
	maxHourSums = 10 // how many sums of each kind are returned: those with the most runs
)

// LastHour sums up the runs of a scope (journal.Start) that began within the last hour.
func LastHour(ctx context.Context, j *journal.Journal, scope string) (*Hour, error) {
	rows, err := j.List(ctx, &journal.Filter{Scope: &scope, Since: time.Now().Add(-time.Hour), Limit: maxHourRuns})
	if err != nil {
		return nil, err
	}
	var runs, functions []journal.Day
	for i := range rows {
		r := &rows[i]
		if r.Batch {
			continue // its parts, which are runs, too, are counted instead
		}
		d := journal.Day{Caller: r.Caller, Chain: r.Chain, Count: 1, Calls: int64(r.Calls), Tokens: int64(r.Tokens), Stored: int64(r.Stored),
			Times: journal.Times{}}
		d.Times.Count(r.Took)
		if !slices.Contains([]journal.Status{journal.OK, journal.Running, journal.Waiting, journal.MayContinue}, r.Status) {
			d.Failures = 1
		}
		runs = append(runs, d)
		for _, name := range r.Functions {
			functions = append(functions, journal.Day{Function: name, Count: 1, Failures: d.Failures, Times: d.Times})
		}
	}
	sumsBy := func(days []journal.Day, name func(*journal.Day) string, include func(*journal.Day) bool) []Sum {
		list := sums(days, name, include)
		return list[:min(len(list), maxHourSums)]
	}
	includeAll := func(*journal.Day) bool { return true }
	named := func(d *journal.Day) bool { return d.Chain != "" }
	h := &Hour{Functions: sumsBy(functions, func(d *journal.Day) string { return d.Function }, includeAll),
		Chains:  sumsBy(runs, func(d *journal.Day) string { return d.Chain }, named),
		Callers: sumsBy(runs, func(d *journal.Day) string { return d.Caller }, includeAll)}
	// one sum of all runs, or none if there are no runs
	for _, s := range sumsBy(runs, func(*journal.Day) string { return "" }, includeAll) {
		h.Sum = s
		h.Name = "all"
	}
	return h, nil
}
