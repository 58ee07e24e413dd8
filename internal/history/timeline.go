package history

import (
	"cmp"
	"context"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
)

// Timeline is a run with its calls, and what else happened, in the order of their events: of a write that it began, of a read that
// it ended.
type Timeline struct {
	Run
	List []Call `json:"timeline"`

	calls   []*journal.PastCall // of List; nil: it is no call
	numbers []int               // of their events
}

// Call is one call of a run, all its attempts together, or something else that happened: then it has only Event, Calls and After.
type Call struct {
	Event    string        `json:"event,omitempty"`   // resumed, waits, approved, denied; "": a call
	Calls    int           `json:"calls,omitempty"`   // that wait, or were approved or denied
	At       string        `json:"at,omitempty"`      // its step: 3, 3[7], 3[7].1
	Function string        `json:"fn,omitempty"`      //
	Status   string        `json:"status,omitempty"`  // ok, failed, or running
	Outcome  fault.Outcome `json:"outcome,omitempty"` // of a call that writes
	Code     fault.Code    `json:"code,omitempty"`
	Wave     int           `json:"wave,omitempty"`   // from 1: what ran side by side
	After    float64       `json:"after"`            // milliseconds since the run began; of the last attempt
	Waited   float64       `json:"waited,omitempty"` // milliseconds after all of the waves before had ended
	Millis   float64       `json:"ms"`               // of the last attempt
	Retries  int           `json:"retries,omitempty"`
	Bytes    int           `json:"bytes"`
	Tokens   int           `json:"tokens"`
	Undoes   bool          `json:"undoes,omitempty"` // it takes another call back
	Assumed  bool          `json:"assumed,omitempty"`
	*Values                // nil: they are not shown
}

// What happens beside calls.
const (
	resumed  = "resumed"
	waits    = "waits"
	approved = "approved"
	denied   = "denied"
)

// Of tells one run, of a caller (nil: of anybody), without arguments and results.
func Of(ctx context.Context, j *journal.Journal, id string, caller *string) (*Timeline, error) {
	past, err := j.Read(ctx, id, caller)
	if err != nil {
		return nil, err
	}
	return timelineOf(past), nil
}

func timelineOf(past *journal.Past) *Timeline {
	t := &Timeline{Run: runOf(&past.Row), List: []Call{}}
	began := past.Row.Began.UnixMicro()
	times, spans := spansOf(past), []span{}
	add := func(n int, c *journal.PastCall, one Call, at int64, when span) {
		one.After = float64(at-began) / 1000
		t.List, t.calls, t.numbers, spans = append(t.List, one), append(t.calls, c), append(t.numbers, n), append(spans, when)
	}
	calls := past.Calls()
	for i := range past.Events {
		e := &past.Events[i]
		if len(calls) > 0 && calls[0].N == e.N {
			at := e.At
			if e.Kind == journal.Read {
				at -= e.Took
			}
			add(e.N, calls[0], callOf(calls[0], past.Row.Status == journal.Running), at, times[e.N])
			calls = calls[1:]
		}
		if what := eventName(e, i == 0); what != "" {
			add(e.N, nil, Call{Event: what, Calls: len(e.Approvals)}, e.At, span{e.At, e.At})
		}
	}
	t.waves(spans, began)
	return t
}

func callOf(c *journal.PastCall, running bool) Call {
	one := Call{At: c.Place, Function: c.Function, Status: "ok", Outcome: c.Outcome, Code: c.Code, Millis: float64(c.Took) / 1000, Retries: c.Attempt,
		Bytes: c.Bytes, Tokens: cmp.Or(c.Tokens, tokens(c.Bytes)), Undoes: c.Undoes != 0, Assumed: c.Assumed}
	switch {
	case c.Ended == 0 && !c.Assumed && running:
		one.Status = "running"
	case c.Code != "" || c.Ended == 0 && !c.Assumed:
		one.Status = "failed"
	}
	return one
}

// eventName is what an event tells beside calls; "": nothing. The first tells that the run began.
func eventName(e *journal.Event, first bool) string {
	switch e.Kind {
	case journal.Sent:
		if !first {
			return resumed
		}
	case journal.Waits:
		return waits
	case journal.Approved:
		return approved
	case journal.Denied:
		return denied
	}
	return ""
}

// tokens are those of a result of which only the size is known, about.
func tokens(bytes int) int { return (bytes + 2) / 3 }

// Show adds the arguments and results that the journal has kept, without secrets. It is for a journal that keeps them to be shown.
func (t *Timeline) Show(scrubber *secret.Scrubber) {
	for i, c := range t.calls {
		if c != nil {
			t.List[i].Values = newValues(c.Args, c.Result, scrubber)
		}
	}
}
