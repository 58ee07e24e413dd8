// Package history tells what runs did, from the journal: runs one by one, a run's calls in their order, and sums.
package history

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// Run is a run as it is told.
type Run struct {
	ID        string         `json:"id"`
	Status    journal.Status `json:"status"`
	Code      fault.Code     `json:"code,omitempty"` // of a run that is not ok
	Chain     string         `json:"chain,omitempty"`
	Key       string         `json:"key,omitempty"`
	Caller    string         `json:"caller,omitempty"`
	Began     time.Time      `json:"began"`
	Millis    float64        `json:"ms"` // all its resumes together
	Steps     int            `json:"steps"`
	Calls     int            `json:"calls"`
	Reused    int            `json:"reused,omitempty"` // calls whose results were taken from the journal
	Writes    int            `json:"writes,omitempty"`
	Tokens    int            `json:"tokens"` // of its answers
	Kept      int            `json:"kept"`   // tokens that no answer held, estimated
	Functions []string       `json:"functions,omitempty"`
}

func runOf(r *journal.Row) Run {
	return Run{ID: r.ID, Status: r.Status, Code: r.Code, Chain: r.Chain, Key: r.Key, Caller: r.Caller, Began: r.Began, Millis: millis(r.Took), Steps: r.Steps,
		Calls: r.Calls, Reused: r.Reused, Writes: r.Writes, Tokens: r.Tokens, Kept: r.Kept, Functions: r.Functions}
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Runs are the runs that a filter means, the youngest first.
func Runs(ctx context.Context, j *journal.Journal, f *journal.Filter) ([]Run, error) {
	rows, err := j.List(ctx, f)
	if err != nil {
		return nil, err
	}
	runs := make([]Run, len(rows))
	for i := range rows {
		runs[i] = runOf(&rows[i])
	}
	return runs, nil
}

// Timeline is a run with its calls in the order in which they began.
type Timeline struct {
	Run
	List []Call `json:"timeline"`
}

// Call is one call of a run, all its attempts together.
type Call struct {
	At       string        `json:"at"` // its step: 3, 3[7], 3[7].1
	Function string        `json:"fn"`
	Status   string        `json:"status"`            // ok, failed, or under way
	Outcome  fault.Outcome `json:"outcome,omitempty"` // of a call that writes
	Code     fault.Code    `json:"code,omitempty"`
	After    float64       `json:"after"` // milliseconds since the run began
	Millis   float64       `json:"ms"`
	Retries  int           `json:"retries,omitempty"`
	Bytes    int           `json:"bytes"`
	Tokens   int           `json:"tokens"`
	Undoes   bool          `json:"undoes,omitempty"` // it takes another call back
	Assumed  bool          `json:"assumed,omitempty"`
}

// Of tells one run, of a caller (nil: of anybody).
func Of(ctx context.Context, j *journal.Journal, id string, caller *string) (*Timeline, error) {
	past, err := j.Read(ctx, id, caller)
	if err != nil {
		return nil, err
	}
	t := &Timeline{Run: runOf(&past.Row), List: []Call{}}
	for _, c := range past.Calls() {
		one := Call{At: c.Place, Function: c.Function, Status: "ok", Outcome: c.Outcome, Code: c.Code, Millis: float64(c.Took) / 1000, Retries: c.Attempt,
			Bytes: c.Bytes, Tokens: c.Tokens, Undoes: c.Undoes != 0, Assumed: c.Assumed}
		began := c.At
		if c.Kind == journal.Read {
			began -= c.Took
		}
		one.After = float64(began-past.Row.Began.UnixMicro()) / 1000
		switch {
		case c.Ended == 0 && !c.Assumed && past.Row.Status == journal.Running:
			one.Status = "running"
		case c.Code != "" || c.Ended == 0 && !c.Assumed:
			one.Status = "failed"
		}
		t.List = append(t.List, one)
	}
	return t, nil
}

// Sum is what was done by one function, chain or caller, or on one day.
type Sum struct {
	Name     string  `json:"name"`
	Count    int64   `json:"count"`    // calls of a function, else runs
	Failures int64   `json:"failures"` // of these
	P50      float64 `json:"p50"`      // milliseconds
	P95      float64 `json:"p95"`
	Calls    int64   `json:"calls,omitempty"` // of runs: calls of functions
	Tokens   int64   `json:"tokens,omitempty"`
	Kept     int64   `json:"kept,omitempty"`
	Saved    int64   `json:"saved,omitempty"` // round trips: calls that were no request of their own
}

// Stats are sums by function, chain, caller and day.
type Stats struct {
	Functions []Sum `json:"functions"`
	Chains    []Sum `json:"chains"`
	Callers   []Sum `json:"callers"`
	Days      []Sum `json:"days"`
}

// StatsOf adds up what a filter means.
func StatsOf(ctx context.Context, j *journal.Journal, f *journal.Filter) (*Stats, error) {
	days, err := j.Days(ctx, f)
	if err != nil {
		return nil, err
	}
	whole := func(d *journal.Day) bool { return d.Function == "" }
	return &Stats{
		Functions: sums(days, func(d *journal.Day) string { return d.Function }, func(d *journal.Day) bool { return d.Function != "" }),
		Chains:    sums(days, func(d *journal.Day) string { return d.Chain }, whole),
		Callers:   sums(days, func(d *journal.Day) string { return d.Caller }, whole),
		Days:      sums(days, func(d *journal.Day) string { return d.Day }, whole),
	}, nil
}

// sums adds up days by a name, those with the most first, days the youngest first.
func sums(days []journal.Day, name func(*journal.Day) string, counts func(*journal.Day) bool) []Sum {
	byName := map[string]*journal.Day{}
	for i := range days {
		d := &days[i]
		if !counts(d) {
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
		s := Sum{Name: key, Count: d.Count, Failures: d.Failures, P50: millis(d.Times.Quantile(0.5)), P95: millis(d.Times.Quantile(0.95)), Calls: d.Calls, Tokens: d.Tokens, Kept: d.Kept}
		if d.Function == "" {
			s.Saved = max(d.Calls-d.Count, 0)
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Sum) int { return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(b.Name, a.Name)) })
	return list
}

// Find is the id of the run that begins so, which need not have the prefix of ids. ErrNotFound: there is none.
func Find(ctx context.Context, j *journal.Journal, begins string) (string, error) {
	if !strings.HasPrefix(begins, journal.IDPrefix) {
		begins = journal.IDPrefix + begins
	}
	return j.FindID(ctx, begins)
}
