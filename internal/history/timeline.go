package history

import (
	"context"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

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
