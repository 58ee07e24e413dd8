// Package history reports, from the journal, what runs did: it lists runs, shows and compares the calls of runs, and sums runs up.
package history

import (
	"context"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// Run describes a run.
type Run struct {
	ID        string         `json:"id"`
	Status    journal.Status `json:"status"`
	Code      fault.Code     `json:"code,omitempty"`    // the error code of a run that is not ok
	Message   string         `json:"message,omitempty"` // why it is not ok; only in a timeline
	Chain     string         `json:"chain,omitempty"`
	Key       string         `json:"key,omitempty"` // as its caller gave it
	Caller    string         `json:"caller,omitempty"`
	Parent    string         `json:"parent,omitempty"` // the run that this one is a part of
	Parts     journal.Parts  `json:"parts,omitempty"`  // the number of parts by status; nil: the run has no parts
	Began     time.Time      `json:"began"`
	Millis    float64        `json:"ms"` // how long it ran, including resumes
	Steps     int            `json:"steps"`
	Calls     int            `json:"calls"`
	Reused    int            `json:"reused,omitempty"` // calls whose results came from the journal
	Writes    int            `json:"writes,omitempty"` // calls that write and were sent, or may have been, but those that undo another
	Undos     int            `json:"undos,omitempty"`  // the same of calls that undo another
	Left      int            `json:"left,omitempty"`   // calls that its undo left, perhaps or certainly done
	Tokens    int            `json:"tokens"`           // the tokens of its answers
	Stored    int            `json:"kept"`             // tokens of results that are in no answer, estimated
	Functions []string       `json:"functions,omitempty"`
}

// Title returns the name of the run's chain; if it has none, the first functions that it calls.
func (r *Run) Title() string {
	if name := strings.Join(strings.Fields(r.Chain), " "); name != "" {
		return name
	}
	return strings.Join(r.Functions[:min(len(r.Functions), 3)], " ")
}

func runOf(r *journal.Row) Run {
	return Run{ID: r.ID, Status: r.Status, Code: r.Code, Chain: r.Chain, Key: r.CallersKey(), Caller: r.Caller, Parent: r.Parent,
		Began: r.Began, Millis: millis(r.Took), Steps: r.Steps,
		Calls: r.Calls, Reused: r.Reused, Writes: r.Writes, Undos: r.Undos, Left: r.Left, Tokens: r.Tokens,
		Stored: r.Stored, Functions: r.Functions}
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Runs returns the runs that match a filter, newest first.
func Runs(ctx context.Context, j *journal.Journal, f *journal.Filter) ([]Run, error) {
	rows, err := j.List(ctx, f)
	if err != nil {
		return nil, err
	}
	runs, ids := make([]Run, len(rows)), make([]string, len(rows))
	for i := range rows {
		runs[i], ids[i] = runOf(&rows[i]), rows[i].ID
	}
	counts, err := j.Parts(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i := range runs {
		runs[i].Parts = counts[runs[i].ID]
	}
	return runs, nil
}

// Find returns the runs whose id begins with prefix, newest first, at most limit. journal.IDPrefix, with which all ids begin, may be left
// out of prefix.
func Find(ctx context.Context, j *journal.Journal, prefix string, limit int) ([]Run, error) {
	if !strings.HasPrefix(prefix, journal.IDPrefix) {
		prefix = journal.IDPrefix + prefix
	}
	return Runs(ctx, j, &journal.Filter{IDPrefix: prefix, Limit: limit})
}
