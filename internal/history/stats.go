package history

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// Sum sums up the calls of a function, or the runs of a chain, of a caller or of a day.
type Sum struct {
	Name     string  `json:"name"`
	Count    int64   `json:"count"`    // calls of a function, else runs
	Failures int64   `json:"failures"` // how many of Count failed
	P50      float64 `json:"p50"`      // the median duration in milliseconds
	P95      float64 `json:"p95"`
	Calls    int64   `json:"calls,omitempty"` // the calls of functions, if Count is runs
	Tokens   int64   `json:"tokens,omitempty"`
	Stored   int64   `json:"kept,omitempty"`
	Saved    int64   `json:"saved,omitempty"` // the round trips saved: calls beyond one for each run
}

// Stats has sums by function, chain, caller and day, and chains that are worth saving.
type Stats struct {
	Functions []Sum `json:"functions"`
	Chains    []Sum `json:"chains"`
	Callers   []Sum `json:"callers"`
	Days      []Sum `json:"days"`

	WorthSaving []SaveCandidate `json:"worthSaving"`
}

// StatsOf sums up the runs that match a filter.
func StatsOf(ctx context.Context, j *journal.Journal, f *journal.Filter) (*Stats, error) {
	days, err := j.Days(ctx, f)
	if err != nil {
		return nil, err
	}
	candidates, err := saveCandidates(ctx, j, f)
	if err != nil {
		return nil, err
	}
	isRunTotal := func(d *journal.Day) bool { return d.Function == "" }
	return &Stats{
		Functions: functionSums(days),
		Chains:    sums(days, func(d *journal.Day) string { return d.Chain }, isRunTotal),
		Callers:   sums(days, func(d *journal.Day) string { return d.Caller }, isRunTotal),
		Days:      sums(days, func(d *journal.Day) string { return d.Day }, isRunTotal),

		WorthSaving: candidates,
	}, nil
}

// FunctionsOf sums up, by function, the calls that match a filter.
func FunctionsOf(ctx context.Context, j *journal.Journal, f *journal.Filter) ([]Sum, error) {
	days, err := j.Days(ctx, f)
	return functionSums(days), err
}

func functionSums(days []journal.Day) []Sum {
	return sums(days, func(d *journal.Day) string { return d.Function }, func(d *journal.Day) bool { return d.Function != "" })
}

// sums groups the elements of days that include accepts by name, and sums up each group. The sums with the highest counts come first, and
// equal counts in descending order of their names, so that the newer of two days comes first.
func sums(days []journal.Day, name func(*journal.Day) string, include func(*journal.Day) bool) []Sum {
	byName := map[string]*journal.Day{}
	for i := range days {
		d := &days[i]
		if !include(d) {
			continue
		}
		sum := byName[name(d)]
		if sum == nil {
			sum = &journal.Day{Function: d.Function}
			byName[name(d)] = sum
		}
		sum.Add(d)
	}
	list := []Sum{}
	for key, d := range byName {
		// A resume that succeeds subtracts the failure of its run, which may have been counted on a day that is not in days.
		s := Sum{Name: key, Count: d.Count, Failures: max(d.Failures, 0), P50: millis(d.Times.Quantile(0.5)),
			P95: millis(d.Times.Quantile(0.95)), Calls: d.Calls, Tokens: d.Tokens, Stored: d.Stored}
		if d.Function == "" {
			s.Saved = max(d.Calls-d.Count, 0)
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Sum) int { return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(b.Name, a.Name)) })
	return list
}
