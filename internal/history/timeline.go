package history

import (
	"cmp"
	"context"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
)

// Timeline is a run with its calls in the order in which they began.
type Timeline struct {
	Run
	List []Call `json:"timeline"`

	calls []*journal.PastCall // of List
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
	*Values                // nil: they are not shown
}

// Of tells one run, of a caller (nil: of anybody), without arguments and results.
func Of(ctx context.Context, j *journal.Journal, id string, caller *string) (*Timeline, error) {
	past, err := j.Read(ctx, id, caller)
	if err != nil {
		return nil, err
	}
	t := &Timeline{Run: runOf(&past.Row), List: []Call{}, calls: past.Calls()}
	for _, c := range t.calls {
		one := Call{At: c.Place, Function: c.Function, Status: "ok", Outcome: c.Outcome, Code: c.Code, Millis: float64(c.Took) / 1000, Retries: c.Attempt,
			Bytes: c.Bytes, Tokens: cmp.Or(c.Tokens, tokens(c.Bytes)), Undoes: c.Undoes != 0, Assumed: c.Assumed}
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

// tokens are those of a result of which only the size is known, about.
func tokens(bytes int) int { return (bytes + 2) / 3 }

// Show adds the arguments and results that the journal has kept, without secrets. It is for a journal that keeps them to be shown.
func (t *Timeline) Show(scrubber *secret.Scrubber) {
	for i, c := range t.calls {
		t.List[i].Values = newValues(c.Args, c.Result, scrubber)
	}
}
