package history

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
)

// Timeline is a run with its calls and other events in the order of the journal: writes by their start, reads by their end.
type Timeline struct {
	Run
	List  []Call `json:"timeline"`
	NotOK []Run  `json:"notOK,omitempty"` // the parts of the run that are not ok, newest first; see AddParts
	// Decided has, by the path of each call that was approved or denied and not made since, whether it was denied.
	Decided map[string]bool `json:"-"`

	calls   []*journal.PastCall // the call behind each element of List; nil: the element is not a call
	numbers []int               // the number of the event behind each element of List
}

// Call is one call of a run, with all its attempts, or another event, which has only Event, Calls, Places, By, Reason, Code, Message
// and After.
type Call struct {
	Event    string        `json:"event,omitempty"`  // resumed, refused, waits, approved, denied, warned; "": a call
	Calls    int           `json:"calls,omitempty"`  // how many calls wait, or were approved or denied
	Places   string        `json:"places,omitempty"` // where the first of them are, and how many more there are
	By       string        `json:"by,omitempty"`     // who approved or denied them; "": the run's caller, or it is not known
	Reason   string        `json:"reason,omitempty"` // why they were approved or denied
	At       string        `json:"at,omitempty"`     // the path of its step: 3, 3[7], 3[7].1
	Function string        `json:"fn,omitempty"`
	Status   string        `json:"status,omitempty"`  // ok, failed or running
	Outcome  fault.Outcome `json:"outcome,omitempty"` // the outcome of a call that writes
	Code     fault.Code    `json:"code,omitempty"`
	Message  string        `json:"message,omitempty"` // why the call failed, or the resume was refused; of what a flow rule warns
	Wave     int           `json:"wave,omitempty"`    // the number of the wave, from 1; calls of one wave ran side by side
	After    float64       `json:"after"`             // milliseconds from the start of the run to the event or the last attempt
	Waited   float64       `json:"waited,omitempty"`  // milliseconds from the end of all earlier waves to the start of the call
	Millis   float64       `json:"ms"`                // the duration of the last attempt
	Retries  int           `json:"retries,omitempty"`
	Bytes    int           `json:"bytes"`
	Tokens   int           `json:"tokens"`
	Undoes   bool          `json:"undoes,omitempty"`  // it undoes another call
	Assumed  bool          `json:"assumed,omitempty"` // the caller of a resume stated the outcome or the result (assume)
	*Values                // nil: the arguments and the result are not shown
}

// Events other than calls.
const (
	Resumed  = "resumed"
	Refused  = "refused"
	waiting  = "waits"
	approved = "approved"
	denied   = "denied"
	warned   = "warned"
)

// Of returns the timeline of a run of a caller, without arguments and results. If caller is nil, the run may be of any caller.
func Of(ctx context.Context, j *journal.Journal, id string, caller *string) (*Timeline, error) {
	past, err := j.Read(ctx, id, caller)
	if err != nil {
		return nil, err
	}
	return OfPast(past), nil
}

// Reader reads the timeline of a run again and again, each time only what is new in the journal. A timeline is valid until the next is
// read.
type Reader struct {
	j      *journal.Journal
	id     string
	caller *string
	past   *journal.Past // nil: it was not read yet
}

// NewReader returns a reader of the timeline that Of returns.
func NewReader(j *journal.Journal, id string, caller *string) *Reader {
	return &Reader{j: j, id: id, caller: caller}
}

// Read returns the timeline as it is now.
func (r *Reader) Read(ctx context.Context) (t *Timeline, err error) {
	if r.past == nil {
		r.past, err = r.j.Read(ctx, r.id, r.caller)
	} else {
		err = r.j.Refresh(ctx, r.past)
	}
	if err != nil {
		r.past = nil
		return nil, err
	}
	return OfPast(r.past), nil
}

// AddParts adds the counts of the run's parts, and at most limit of the parts that are not ok. It adds nothing to a run without parts.
func (t *Timeline) AddParts(ctx context.Context, j *journal.Journal, limit int) error {
	counts, err := j.Parts(ctx, []string{t.ID})
	if t.Parts = counts[t.ID]; err != nil || t.Parts == nil {
		return err
	}
	t.NotOK, err = Runs(ctx, j, &journal.Filter{Parent: &t.ID, NotOK: true, Limit: limit})
	return err
}

// Number returns the number of the event behind an element of List. Later events do not change it; another attempt at a call has another.
func (t *Timeline) Number(i int) int { return t.numbers[i] }

// OfPast returns the timeline of a run that was read, without arguments and results.
func OfPast(past *journal.Past) *Timeline {
	t := &Timeline{Run: runOf(&past.Row), List: []Call{}, Decided: map[string]bool{}}
	if t.Code != "" {
		t.Message = past.Message
	}
	began := past.Row.Began.UnixMicro()
	times, spans := timeSpans(past), []timeSpan{}
	add := func(n int, c *journal.PastCall, call Call, at int64, when timeSpan) {
		call.After = float64(at-began) / 1000
		t.List, t.calls, t.numbers, spans = append(t.List, call), append(t.calls, c), append(t.numbers, n), append(spans, when)
	}
	calls, waited := past.Calls(), map[string]string{} // waited: by the name of an approval, where its call is
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
		if name := eventName(e, i == 0); name != "" {
			event := Call{Event: name, Code: e.Code, Message: e.Message}
			if e.Kind != journal.Sent {
				event.Calls = len(e.Approvals)
			}
			if e.Kind == journal.Waits {
				addPlaces(waited, e)
			}
			event.Places = placesOf(waited, e)
			if name == approved || name == denied {
				event.Message = ""
				event.By, event.Reason = e.Decision()
			}
			at := max(e.At, began) // a denial of an earlier run has its time
			add(e.N, nil, event, at, timeSpan{at, at})
		}
	}
	for name, at := range waited {
		if isDenied := past.Denial(name) != nil; isDenied || past.Approved(name) {
			t.Decided[at] = isDenied
		}
	}
	t.setWaves(spans, began)
	return t
}

// maxPlaces bounds the places of an event.
const maxPlaces = 10

// placesOf returns the places of the calls that an event is about, as far as they are known.
func placesOf(waited map[string]string, e *journal.Event) string {
	var list []string
	for _, name := range e.Approvals[:min(len(e.Approvals), maxPlaces)] {
		if at := waited[name]; at != "" {
			list = append(list, at)
		}
	}
	text := strings.Join(list, ", ")
	if more := len(e.Approvals) - maxPlaces; more > 0 && text != "" {
		text += " and " + strconv.Itoa(more) + " more"
	}
	return text
}

// addPlaces adds where the calls of a Waits event are, by the names of their approvals.
func addPlaces(places map[string]string, waits *journal.Event) {
	for i, call := range gjson.ParseBytes(waits.Args).Array() {
		if i < len(waits.Approvals) {
			places[waits.Approvals[i]] = call.Get("at").Str
		}
	}
}

func callOf(c *journal.PastCall, running bool) Call {
	call := Call{At: c.StepPath, Function: c.Function, Status: "ok", Outcome: c.Outcome, Code: c.Code, Message: c.Message,
		Millis:  float64(c.Took) / 1000,
		Retries: c.Attempt,
		Bytes:   c.Bytes, Tokens: cmp.Or(c.Tokens, tokens(c.Bytes)), Undoes: c.Undoes != 0, Assumed: c.Assumed}
	switch {
	case c.Ended == 0 && !c.Assumed && running:
		call.Status = "running"
	case c.Code != "" || c.Ended == 0 && !c.Assumed:
		call.Status = "failed"
	}
	return call
}

// eventName returns the name of an event that is not about a call, or "". The first event is the start of the run.
func eventName(e *journal.Event, first bool) string {
	switch e.Kind {
	case journal.Sent:
		if !first {
			return Resumed
		}
	case journal.Refused:
		return Refused
	case journal.Waits:
		return waiting
	case journal.Approved:
		return approved
	case journal.Denied:
		return denied
	case journal.Warned:
		return warned
	}
	return ""
}

// tokens estimates the tokens of a result by its size.
func tokens(bytes int) int { return (bytes + 2) / 3 }

// Show adds the arguments and results, without secrets, as far as the journal stores them for people.
func (t *Timeline) Show(scrubber *secret.Scrubber) {
	for i := range t.List {
		t.ShowCall(i, scrubber)
	}
}

// ShowCall is Show for one element of List.
func (t *Timeline) ShowCall(i int, scrubber *secret.Scrubber) {
	if c := t.calls[i]; c != nil {
		t.List[i].Values = newValues(c.Args, c.ComparableResult(), scrubber)
	}
}
