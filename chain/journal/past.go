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

// Past is what a run has done so far.
type Past struct {
	Row    Row
	Scope  string  // that it began in, see Start; it never changes
	Chain  []byte  // as it was sent, or made of it, last
	Events []Event // in the order of their leases and numbers

	Waiting *Event // that the run waits for approval; nil: it does not
	Decided int    // how often an approval was used up, or refused

	calls    map[mac][]*PastCall // by ordinal
	writes   []*PastCall         // of these, those that write, in the order in which they began first
	approved map[string]bool     // calls that were, and that were not made since
	known    map[int]*PastCall   // by the number of the event that it began or ended with
	last     int                 // the highest number
}

// PastCall is a call that a run made, with all its attempts.
type PastCall struct {
	Event // that it began, the last time; of a read, the only one

	Ended   int           // the number of the event that tells so; 0: nobody knows how it ended
	Outcome fault.Outcome // "" of reads
	Code    fault.Code    // "": it succeeded
	Result  []byte        // nil: it has none, or it was not kept
	Bytes   int
	Tokens  int
	Took    int64
	StoodIn bool // something else stood in for its failure
	Undo    []byte
	Undone  bool
	Unsure  bool // an undo of it was sent, and nobody knows whether it was done
	Assumed bool // Outcome, or Result, is what a caller said

	earlier fault.Outcome // of the attempts before the last
	undone  int           // how often it was taken back
}

// Read gives what a run of a caller has done so far; nil: of any caller. ErrNotFound: there is none. ErrUnreadable: it was written
// under another key, or was changed.
func (j *Journal) Read(ctx context.Context, id string, caller *string) (*Past, error) {
	rec, err := j.load(ctx, id, caller)
	if err != nil {
		return nil, err
	}
	return j.past(rec)
}

func (j *Journal) load(ctx context.Context, id string, caller *string) (*Record, error) {
	rec, err := j.driver.Load(ctx, id)
	if err == nil && (caller != nil && rec.Row.Caller != *caller || rec.Row.Expires.Before(time.Now())) {
		return nil, ErrNotFound
	}
	return rec, err
}

// Take is Read, and takes the run's lease: Resume goes on with it, or GiveBack gives it back. ErrBusy: the run goes on elsewhere.
func (j *Journal) Take(ctx context.Context, id string, caller *string) (*Past, error) {
	rec, err := j.driver.Take(ctx, id, caller)
	if err != nil {
		return nil, err
	}
	p, err := j.past(rec)
	if err == nil && rec.Row.Expires.Before(time.Now()) {
		err = ErrNotFound
	}
	if err != nil {
		j.GiveBack(&Past{Row: rec.Row})
		return nil, err
	}
	return p, nil
}

// GiveBack gives the lease of a run back that Take gave, and that was not resumed.
func (j *Journal) GiveBack(p *Past) {
	w := &write{Write: Write{ID: p.Row.ID, Lease: p.Row.Lease, Release: true}, result: make(chan error, 1)}
	if j.put(w) == nil && <-w.result != nil {
		j.late(w) // whoever wants it may have to wait for that
	}
}

// Find is the id of the run of a caller with a key in a scope, unless it has expired.
func (j *Journal) Find(ctx context.Context, caller, scope, key string) (id string, err error) {
	id, err = j.driver.Find(ctx, caller, scopedKey(key, scope), "")
	if err != nil {
		return "", err
	}
	if _, err := j.load(ctx, id, &caller); errors.Is(err, ErrNotFound) {
		j.forget() // its key may be used again
		return "", ErrNotFound
	}
	return id, nil
}

func newPast(row Row) *Past {
	return &Past{Row: row, calls: map[mac][]*PastCall{}, known: map[int]*PastCall{}, approved: map[string]bool{}}
}

// copy is what has been done so far, which what is done from now on does not change.
func (p *Past) copy() *Past {
	own := &Past{Row: p.Row, calls: make(map[mac][]*PastCall, len(p.calls)), approved: maps.Clone(p.approved)}
	for m, list := range p.calls {
		calls := make([]*PastCall, len(list))
		for i, c := range list {
			if c != nil {
				one := *c
				calls[i] = &one
			}
		}
		own.calls[m] = calls
	}
	for _, c := range p.writes {
		own.writes = append(own.writes, own.calls[mac(c.MAC)][c.Ordinal])
	}
	return own
}

// past is what a record tells.
func (j *Journal) past(rec *Record) (*Past, error) {
	p := newPast(rec.Row)
	for i := range rec.Segments {
		events, err := j.keys.openEvents(rec.Row.ID, &rec.Segments[i])
		if err != nil {
			return nil, err
		}
		p.Events = append(p.Events, events...)
	}
	for i := range p.Events {
		p.follow(&p.Events[i])
	}
	return p, nil
}

// follow takes note of an event.
func (p *Past) follow(e *Event) (c *PastCall) {
	known := p.known
	p.last = max(p.last, e.N)
	c = known[e.Of]
	switch e.Kind {
	case Sent:
		p.Chain, p.Scope, p.Waiting = e.Chain, cmp.Or(p.Scope, e.Scope), nil
	case Began, Read:
		if len(e.MAC) != macSize {
			return nil
		}
		c = p.attempt(e)
		known[e.N] = c
		p.takenBack(c)
		if e.Kind == Read {
			c.end(e)
		}
		for _, name := range e.Approvals {
			delete(p.approved, name)
			p.Decided++
		}
	case Waits:
		p.Waiting = e
	case Approved:
		p.Waiting = nil
		for _, name := range e.Approvals {
			p.approved[name] = true
		}
	case Denied:
		p.Waiting = nil
		p.Decided++
	case Ended, StoodIn, Assumed:
		p.about(c, e)
	}
	return c
}

// about takes note of an event about a call.
func (p *Past) about(c *PastCall, e *Event) {
	switch {
	case c == nil:
	case e.Kind == Ended:
		c.end(e)
		p.known[e.N] = c
		p.takenBack(c)
	case e.Kind == StoodIn:
		c.StoodIn = true
	case e.Kind == Assumed:
		c.Assumed, c.Outcome = true, e.Outcome
		if e.Result != nil {
			c.Result, c.Code = e.Result, ""
		}
		p.takenBack(c)
	}
}

// takenBack takes note of the call that one has taken back.
func (p *Past) takenBack(c *PastCall) {
	undone := p.known[c.Undoes]
	if undone == nil {
		return
	}
	if undone.Unsure = c.Outcome == fault.SentUnknown; c.Outcome == fault.Applied {
		undone.Undone, undone.Outcome = true, fault.Undone
		undone.undone++
	}
}

// Known is what is known of the call now: its Outcome, or SentUnknown while it may have been taken back.
func (c *PastCall) Known() fault.Outcome {
	if c.Unsure {
		return fault.SentUnknown
	}
	return c.Outcome
}

// attempt is the call that an event tells the beginning of, anew.
func (p *Past) attempt(e *Event) *PastCall {
	m := mac(e.MAC)
	list := p.calls[m]
	for len(list) <= e.Ordinal {
		list = append(list, nil)
	}
	p.calls[m] = list
	c := list[e.Ordinal]
	if c == nil {
		c = &PastCall{}
		list[e.Ordinal] = c
		if e.Effect != "" {
			p.writes = append(p.writes, c)
		}
	}
	earlier := c.Outcome
	if earlier == fault.Undone { // it is as if it had never been
		earlier = ""
	}
	*c = PastCall{Event: *e, Undo: c.Undo, earlier: earlier, undone: c.undone}
	if e.Effect != "" {
		c.Outcome = fault.SentUnknown
	}
	return c
}

// end takes note of how the call ended.
func (c *PastCall) end(e *Event) {
	c.Ended, c.Outcome, c.Code, c.Result = e.N, fault.Combined(c.earlier, e.Outcome), e.Code, e.Result
	c.Bytes, c.Tokens, c.Took = e.Bytes, e.Tokens, e.Took
	if e.Undo != nil {
		c.Undo = e.Undo
	}
}

func (p *Past) call(m mac, ordinal int) *PastCall {
	if list := p.calls[m]; ordinal < len(list) {
		return list[ordinal]
	}
	return nil
}

// Calls are all calls, in the order in which they began.
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

// wroteAfter reports whether a call of this run was applied after another had ended.
func (p *Past) wroteAfter(c *PastCall) bool {
	return slices.ContainsFunc(p.writes, func(w *PastCall) bool { return w.Outcome == fault.Applied && w.N > c.N })
}

// IsBusy reports whether an error means that a run goes on elsewhere.
func IsBusy(err error) bool { return errors.Is(err, ErrBusy) }

// KeyHolds reports whether the call had an idempotency key by which its service still knows it.
func (c *PastCall) KeyHolds() bool {
	return c.Key != "" && (c.KeyUntil == 0 || time.Now().UnixMicro() < c.KeyUntil)
}

// FindID is the id of the youngest run whose id begins so.
func (j *Journal) FindID(ctx context.Context, begins string) (id string, err error) {
	return j.driver.Find(ctx, "", "", begins)
}

// List is Driver.List, with what is written behind.
func (j *Journal) List(ctx context.Context, f *Filter) ([]Row, error) {
	j.catch()
	return j.driver.List(ctx, f)
}

// Days is Driver.Days, with what is written behind.
func (j *Journal) Days(ctx context.Context, f *Filter) ([]Day, error) {
	j.catch()
	return j.driver.Days(ctx, f)
}
