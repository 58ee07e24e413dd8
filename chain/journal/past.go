package journal

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// Past is the history of a run so far.
type Past struct {
	Row    Row
	Chain  []byte  // the chain that was sent last and not refused, after merging
	State  []byte  // the values of $state that the run sees, a JSON object; nil: it reads none
	Labels []byte  // see Start.Labels
	Events []Event // ordered by lease and number

	Credentials []string // see Start

	Message       string // why the run is not ok; "": it is, or it is not known
	Waiting       *Event // the Waits event, if the run waits for approval; else nil
	DecisionCount int    // how often an approval was used or denied

	calls    map[mac][]*PastCall // the calls with each MAC, by ordinal; nil: that call is not recorded
	writes   []*PastCall         // the calls that write, in the order of their first starts
	approved map[string]bool     // names of approvals that were not used yet
	denied   map[string]*Event   // by the name of an approval: its last denial, if it was not approved since; nil: none
	refused  map[string]*Event   // the same by CallOf: the last denial of any equal call
	byEvent  map[int]*PastCall   // the calls by the number of the event that they began or ended with
	before   beforeSent
	segments int // how many were read
	last     struct {
		lease int64
		first int
	} // the last segment that was read
}

// beforeSent has what the last Sent replaced. It holds again if that chain is refused.
type beforeSent struct {
	event   int // the number of the Sent event
	chain   []byte
	state   []byte
	labels  []byte
	waiting *Event
	message string

	credentials []string
}

// PastCall is a call that a run has made, with all its attempts.
type PastCall struct {
	Event // the event of its last start; for a read, its only event

	Ended       int           // the number of the event that ended it; 0: unknown
	Outcome     fault.Outcome // "" for reads
	Code        fault.Code    // "": it succeeded
	Message     string        // why it failed
	Result      []byte        // nil: none, or it was not stored
	Blocks      []Block       // whose handles stand in Result
	Bytes       int
	Tokens      int
	Took        int64 // in microseconds
	Defaulted   bool  // another value replaced its failure
	Undo        []byte
	Undone      bool
	UndoUnknown bool // an undo of it was sent, and its outcome is not known
	Assumed     bool // the caller set Outcome or Result

	earlierOutcome fault.Outcome // the outcome of the attempts before the last one
	timesUndone    int
	task           string // the task of the last attempt; "": none
}

// Task returns the task that may still do the work of the call, so that another attempt asks for it instead of making the call again;
// "": there is none.
func (c *PastCall) Task() string {
	if c.Outcome != fault.SentUnknown {
		return ""
	}
	return c.task
}

// Read returns what a run has done so far. The run must belong to caller; nil: to any caller. It fails with ErrNotFound, or with a coded
// error that is ErrUnreadable if the run was written with another key, or if an event of it is missing or was changed.
func (j *Journal) Read(ctx context.Context, id string, caller *string) (*Past, error) {
	rec, err := j.driver.Load(ctx, id, 0, 0)
	switch {
	case err != nil:
		return nil, err
	case caller != nil && rec.Row.Caller != *caller, rec.Row.Expires.Before(time.Now()):
		return nil, ErrNotFound
	}
	return j.pastOf(rec)
}

// Acquire is like Read and also takes the run's lease, for Resume or Release. It fails with ErrBusy if the run is running elsewhere.
func (j *Journal) Acquire(ctx context.Context, id string, caller *string) (*Past, error) {
	rec, err := j.driver.Acquire(ctx, id, caller)
	if err != nil {
		return nil, err
	}
	p, err := j.pastOf(rec)
	if err == nil && p.Row.LastLease >= rec.Row.Lease { // the number of the lease was changed: it is not a new one
		err = j.explain(id, errDamaged)
	}
	if err == nil && rec.Row.Expires.Before(time.Now()) {
		err = ErrNotFound
	}
	if err != nil {
		j.Release(&Past{Row: rec.Row})
		return nil, err
	}
	return p, nil
}

// Release releases the lease of a run that was acquired and not resumed.
func (j *Journal) Release(p *Past) {
	w := &queuedWrite{Write: Write{ID: p.Row.ID, Lease: p.Row.Lease, Release: true}, done: make(chan error, 1)}
	if j.enqueue(w) == nil && <-w.done != nil {
		j.retryLater(w) // until then the run stays busy
	}
}

// Find returns the id of the run of a caller with a key in a scope. It fails with ErrNotFound if there is none, or if it has expired.
func (j *Journal) Find(ctx context.Context, caller, scope, key string) (id string, err error) {
	id, expires, err := j.driver.Find(ctx, caller, scopedKey(key, scope))
	if err != nil {
		return "", err
	}
	if expires.Before(time.Now()) {
		j.removeExpired() // so that its key can be used again
		return "", ErrNotFound
	}
	return id, nil
}

// Refresh reads what a run that Read has returned has done since, and only that: p becomes what Read would return now, and what was
// returned of it changes, too. After an error p is of no use.
func (j *Journal) Refresh(ctx context.Context, p *Past) error {
	rec, err := j.driver.Load(ctx, p.Row.ID, p.last.lease, p.last.first)
	switch {
	case err != nil:
		return err
	case rec.Row.Expires.Before(time.Now()):
		return ErrNotFound
	case p.segments+len(rec.Segments) != rec.Written: // one was written late, before the last
		again, err := j.Read(ctx, p.Row.ID, nil)
		if err == nil {
			*p = *again
		}
		return err
	}
	earlier := p.Row
	p.Row = rec.Row
	p.Row.HandoverLease, p.Row.LastLease, p.Row.Scope = earlier.HandoverLease, earlier.LastLease, earlier.Scope
	if err := j.keys.extend(p, rec); err != nil {
		return j.explain(p.Row.ID, err)
	}
	return nil
}

func newPast(row Row) *Past {
	return &Past{Row: row, calls: map[mac][]*PastCall{}, byEvent: map[int]*PastCall{}, approved: map[string]bool{}}
}

// clone returns a copy with the row, the calls and the approvals, which later events of p do not change.
func (p *Past) clone() *Past {
	cloned := &Past{Row: p.Row, calls: make(map[mac][]*PastCall, len(p.calls)), approved: maps.Clone(p.approved),
		denied: maps.Clone(p.denied), refused: maps.Clone(p.refused)}
	for m, list := range p.calls {
		calls := make([]*PastCall, len(list))
		for i, c := range list {
			if c != nil {
				callCopy := *c
				calls[i] = &callCopy
			}
		}
		cloned.calls[m] = calls
	}
	for _, c := range p.writes {
		cloned.writes = append(cloned.writes, cloned.calls[mac(c.MAC)][c.Ordinal])
	}
	return cloned
}

// pastOf decodes a record.
func (j *Journal) pastOf(rec *Record) (*Past, error) {
	p, err := j.keys.open(rec)
	if err != nil {
		return nil, j.explain(rec.Row.ID, err)
	}
	return p, nil
}

// open decodes a record. It fails if a segment is missing, since the run may have done what the others do not tell. The numbers of events
// have gaps also where a write failed, so it is the count of the segments that shows a loss; a run without events has lost its first. A
// record that was read while its run goes on may have more segments than it says.
func (k *keys) open(rec *Record) (*Past, error) {
	p := newPast(rec.Row)
	p.Row.HandoverLease, p.Row.LastLease, p.Row.Scope = 0, 0, "" // the events say it
	if err := k.extend(p, rec); err != nil {
		return nil, err
	}
	return p, nil
}

// extend adds the segments of a record that follow those of p.
func (k *keys) extend(p *Past, rec *Record) error {
	known := len(p.Events)
	for i := range rec.Segments {
		s := &rec.Segments[i]
		events, err := k.openEvents(rec.Row.ID, s, rec.Written < 0)
		if err != nil {
			return err
		}
		if n := len(p.Events); n > 0 && events[0].N <= p.Events[n-1].N {
			return errDamaged
		}
		p.Events = append(p.Events, events...)
		p.last.lease, p.last.first = s.Lease, s.First
	}
	if p.segments += len(rec.Segments); p.segments < rec.Written || len(p.Events) == 0 {
		return errDamaged
	}
	for i := range p.Events[known:] {
		e := &p.Events[known+i]
		c := p.apply(e)
		switch {
		case e.Kind == Ended && c == nil: // it ended, and never began
			return errDamaged
		case e.Kind == Waits && e.countCalls() != len(e.Approvals): // each waiting call has a name
			return errDamaged
		}
	}
	return nil
}

// IsApproved reports whether a call is approved that was not made since.
func (p *Past) IsApproved() bool { return len(p.approved) > 0 }

// Approved reports whether the call with this name is approved, and was not made since.
func (p *Past) Approved(name string) bool { return p.approved[name] }

// Denial returns the denial of the call with this name, unless that was approved later; nil: there is none.
func (p *Past) Denial(name string) *Event { return p.denied[name] }

// EndedAt returns when the last attempt ended, to the microsecond.
func (c *PastCall) EndedAt() time.Time {
	if c.Writes() {
		return time.UnixMicro(c.At + c.Took)
	}
	return time.UnixMicro(c.At)
}

// IsSuspended reports whether the run was suspended, to be resumed when its pauses are over.
func (p *Past) IsSuspended() bool {
	return p.Row.Status == Waiting && p.Row.Code == "" && p.Row.HandoverLease != p.Row.LastLease
}

// KnownOutcome returns SentUnknown while the outcome of an undo of the call is unknown, else Outcome.
func (c *PastCall) KnownOutcome() fault.Outcome {
	if c.UndoUnknown {
		return fault.SentUnknown
	}
	return c.Outcome
}

func (p *Past) call(m mac, ordinal int) *PastCall {
	if list := p.calls[m]; ordinal < len(list) {
		return list[ordinal]
	}
	return nil
}

// Calls returns all calls, in the order in which they began.
func (p *Past) Calls() []*PastCall {
	var all []*PastCall
	for _, list := range p.calls {
		for _, c := range list {
			if c != nil {
				all = append(all, c)
			}
		}
	}
	slices.SortFunc(all, func(a, b *PastCall) int { return cmp.Compare(a.N, b.N) })
	return all
}

// wroteAfter implements Run.WroteAfter.
func (p *Past) wroteAfter(c *PastCall) bool {
	return slices.ContainsFunc(p.writes, func(w *PastCall) bool { return w.Outcome == fault.Applied && w.N > c.N })
}

// IsBusy reports whether an error means that a run is running elsewhere.
func IsBusy(err error) bool { return errors.Is(err, ErrBusy) }

// KeyHolds reports whether the call has an idempotency key that its service still knows.
func (c *PastCall) KeyHolds() bool {
	return c.Key != "" && (c.KeyUntil == 0 || time.Now().UnixMicro() < c.KeyUntil)
}
