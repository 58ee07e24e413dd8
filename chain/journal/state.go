package journal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// StateKey names a value of state.
type StateKey struct {
	Owner string // who the value is kept for; versions and bytes are counted for an owner
	Space string
	Name  string
}

// StateRow is a value of state as drivers store it.
type StateRow struct {
	StateKey
	Version int64     // larger than that of each earlier change of the owner's values, unless an undo gave it back with its value
	Expires time.Time // by the database's clock, as all times of state
	Size    int       // the bytes that it counts
	Sealed  []byte    // the encrypted value
}

// StateView is what a driver knows of a value and of its owner in a transaction.
type StateView struct {
	Row  *StateRow // nil: there is no value, or it has expired
	Next int64     // the version that a change gets
	Size int64     // the bytes that all other values of the owner count, including those that have expired and were not removed yet
	Now  time.Time
}

// StateWrite changes a value of state in the transaction of a Write, unless the Write is refused.
type StateWrite struct {
	StateKey
	// Decide is called within the transaction, and again if that is repeated. It sets the segment of the write, and returns what becomes
	// of the value.
	Decide func(*StateView, *Write) StateResult
}

// StateResult is what becomes of a value; the zero value: it stays as it is.
type StateResult struct {
	Row    *StateRow // the row to store, of which Version, Expires, Size and Sealed are set
	Remove bool
}

// StateFilter selects values of an owner that have not expired.
type StateFilter struct {
	Owner    string
	Space    string
	AnySpace bool     // of all spaces; Space is not looked at
	Names    []string // nil: all
	Prefix   string   // only names that begin with it
	Offset   int
	Limit    int  // 0: no limit
	Values   bool // Sealed is read, too
}

// StateValue is a value of state.
type StateValue struct {
	Space, Name string
	Value       []byte // JSON
	Labels      string // see StateChange.Labels
	Version     int64
	Size        int
	Expires     time.Time
}

// StateNow is what a change of state finds.
type StateNow struct {
	*StateValue           // nil: there is no value, or it has expired
	Next        int64     // the version that a change gets
	Size        int64     // the bytes of all other values of the owner
	Now         time.Time // by the database's clock
}

// StateChange is a change of a value.
type StateChange struct {
	Value   []byte    // JSON; nil: the value is removed
	Labels  string    // a text that is kept with the value, without the character 0; "": none
	Expires time.Time // when the new value is removed
}

// stateOverhead is what a value counts beside its name and its JSON, in bytes.
const stateOverhead = 64

// StateSize returns the bytes that a value counts.
func StateSize(name string, value []byte) int { return len(name) + len(value) + stateOverhead }

// States returns values, ordered by space and name. StateValue.Value is set if f.Values is. It fails with coded errors.
func (j *Journal) States(ctx context.Context, f *StateFilter) ([]StateValue, error) {
	rows, err := j.driver.States(ctx, f)
	if err != nil {
		return nil, stateFault(err)
	}
	list := make([]StateValue, len(rows))
	for i := range rows {
		if list[i], err = j.openState(&rows[i], f.Values); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// RemoveStates removes the values of an owner in some spaces.
func (j *Journal) RemoveStates(ctx context.Context, owner string, spaces ...string) error {
	return j.driver.RemoveStates(ctx, owner, spaces)
}

// stateContext is the additional authenticated data of a value.
func stateContext(r *StateRow) []byte {
	return fmt.Appendf(nil, "state %q %q %q %d", r.Owner, r.Space, r.Name, r.Version)
}

func (j *Journal) openState(r *StateRow, value bool) (StateValue, error) {
	v := StateValue{Space: r.Space, Name: r.Name, Version: r.Version, Size: r.Size, Expires: r.Expires}
	if !value {
		return v, nil
	}
	text, err := j.keys.openText(r.Sealed, stateContext(r))
	if err != nil {
		return v, fault.New(fault.Unreadable, "the value of %q in state was written with another key than the one in use now (%s), or was changed: "+
			"put the earlier key back, or choose another name until the value has expired", r.Name, cmp.Or(j.o.KeyPlace, "in memory"))
	}
	v.Value, v.Labels = cutLabels(text)
	return v, nil
}

// labelsMark begins and ends the labels of a sealed value, which precede it. JSON never begins so.
const labelsMark = 0

// cutLabels returns the value and the labels of a text that was sealed.
func cutLabels(text []byte) (value []byte, labels string) {
	if len(text) == 0 || text[0] != labelsMark {
		return text, ""
	}
	before, value, _ := bytes.Cut(text[1:], []byte{labelsMark})
	return value, string(before)
}

// withLabels returns the text to seal.
func (c *StateChange) withLabels() []byte {
	if c.Labels == "" {
		return c.Value
	}
	text := append([]byte{labelsMark}, c.Labels...)
	return append(append(text, labelsMark), c.Value...)
}

// Mark keeps a name without a value for a time, or longer if it was to be kept longer. States lists it, without a value.
func (j *Journal) Mark(ctx context.Context, key StateKey, ttl time.Duration) error {
	if err := j.driver.MarkState(ctx, key, ttl); err != nil {
		return stateFault(err)
	}
	return nil
}

// Keep keeps a value that belongs to no run and counts nothing, for a time; absent: only if there is none. States lists it. It reports
// whether it did.
func (j *Journal) Keep(ctx context.Context, key StateKey, value []byte, ttl time.Duration, absent bool) (kept bool, err error) {
	row := &StateRow{StateKey: key}
	row.Sealed = j.keys.sealText(value, stateContext(row))
	if kept, err = j.driver.KeepState(ctx, row, ttl, absent); err != nil {
		return false, stateFault(err)
	}
	return kept, nil
}

// Decision says what becomes of a value, and with what its call ends: a result, or an error, with which nothing changes. change is nil if
// nothing is to change. It may be called several times; the last one counts. After ErrUndecided the call goes on, and nothing is recorded.
type Decision func(StateNow) (change *StateChange, result []byte, err error)

// ErrUndecided is the error of a Decision of a call that will ask for another one.
var ErrUndecided = errors.New("journal: the call goes on")

// ChangeState changes a value in the transaction that records the end of the call of ctx (see WithCommit), so that each is there if the
// other is. A call without a run gets one of its own, of caller. It returns the result of the decision, or its error, or a coded error of
// the journal.
func (j *Journal) ChangeState(ctx context.Context, caller string, key StateKey, decide Decision) ([]byte, error) {
	if c, ok := ctx.Value(commitKey{}).(*commit); ok && c.call.run.j == j {
		return c.call.commit(ctx, key, decide, c.ended)
	}
	run := j.Begin(&Start{Caller: caller, Steps: 1, Writes: true, Hash: func() string { return "" }, Text: []byte("{}")})
	call := &Call{StepPath: "0", Function: "state", Effect: "write", Args: []byte("{}"), Commits: true}
	run.Prepare(call)
	if err := call.Begin(); err != nil {
		return nil, stateFault(err)
	}
	raw, err := call.commit(ctx, key, decide, func(raw []byte, err error) Event {
		return Event{Result: raw, Code: fault.CodeOf(err), Outcome: fault.OutcomeOf(err)}
	})
	run.Answered(0, 0)
	return raw, err
}

type commitKey struct{}

type commit struct {
	call  *Call
	ended func(raw []byte, err error) Event
}

// WithCommit returns the context of a call (Call.Commits) whose source may change state by ChangeState. ended returns the event of the
// call's end.
func WithCommit(ctx context.Context, c *Call, ended func(raw []byte, err error) Event) context.Context {
	return context.WithValue(ctx, commitKey{}, &commit{c, ended})
}

// RunCaller returns the caller of the run that the call of ctx belongs to, if WithCommit has set it.
func RunCaller(ctx context.Context) (caller string, ok bool) {
	if c, ok := ctx.Value(commitKey{}).(*commit); ok {
		return c.call.run.row.Caller, true
	}
	return "", false
}

// PreviousResult returns the result of the call of ctx as it was made before the run was resumed; nil: none.
func PreviousResult(ctx context.Context) []byte {
	c, ok := ctx.Value(commitKey{}).(*commit)
	if !ok || c.call.previous == nil || c.call.previous.Outcome != fault.Applied {
		return nil
	}
	return c.call.previous.Result
}

// commit implements ChangeState.
func (c *Call) commit(ctx context.Context, key StateKey, decide Decision, ended func([]byte, error) Event) (raw []byte, err error) {
	c.committing.Lock()
	defer c.committing.Unlock()
	if err := ctx.Err(); err != nil { // under the lock: see Settled
		return nil, err
	}
	r := c.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure != nil {
		return nil, stateFault(r.failure)
	}
	began := c.beganEvent()
	r.number(&began)
	r.events = append(r.events, began, Event{Kind: Ended, Of: began.N})
	last := &r.events[len(r.events)-1]
	r.number(last)
	n := last.N
	c.countBegin()
	first, decided := r.events[0].N, false
	q := r.takeSegment(false)
	seal, events, counted := q.prepare, q.events, *q.Row
	q.prepare, q.State = nil, &StateWrite{StateKey: key, Decide: func(at *StateView, w *Write) (change StateResult) {
		decided = true
		q.events, *w.Row = events, counted
		change, raw, err = r.j.decide(at, key, c.Restores, decide)
		if errors.Is(err, ErrUndecided) {
			q.events, w.Segment = events[:len(events)-2], nil
			c.count(w.Row, -1)
			seal(w)
			return change
		}
		event := ended(raw, err)
		event.N, event.Kind, event.Of = n, Ended, began.N
		c.complete(&event)
		*last = event
		seal(w)
		return change
	}}
	failure := r.awaitWrite(q)
	undecided := errors.Is(err, ErrUndecided)
	if failure != nil && decided && !undecided && !errors.Is(failure, ErrTaken) {
		switch landed, unknown := r.j.landed(ctx, q, first); {
		case landed:
			failure, r.failure, r.hasRow = nil, nil, true
		case unknown != nil:
			r.releaseLost(q, failure)
			f := stateFault(failure)
			f.Outcome = fault.SentUnknown
			c.settled = &Event{Outcome: f.Outcome}
			return nil, f
		}
	}
	switch {
	case failure != nil:
		r.releaseLost(q, failure)
		return nil, stateFault(failure)
	case undecided:
		c.attempts--
		c.count(&r.row, -1)
		return nil, err
	}
	c.startEvent, c.committed, c.settled = began.N, true, last
	r.learn(&began)
	r.learn(last)
	return raw, err
}

// Settled returns the end of the last attempt at a call that Commits as it was recorded; nil: nothing was changed. A change under way is
// awaited. The attempt's function has returned, or its context has ended, so that it begins no other.
func (c *Call) Settled() *Event {
	c.committing.Lock()
	defer c.committing.Unlock()
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	return c.settled
}

// decide opens the value, asks for the decision, and seals the new value. An undo restores the version with the value: while the version is
// the one that a change left, nobody has changed the value since, or what was changed was undone. So several changes of a value are undone
// one by one.
func (j *Journal) decide(at *StateView, key StateKey, restores int64, decide Decision) (result StateResult, raw []byte, err error) {
	now := StateNow{Next: cmp.Or(restores, at.Next), Size: at.Size, Now: at.Now}
	if at.Row != nil {
		value, err := j.openState(at.Row, true)
		if err != nil {
			return StateResult{}, nil, err
		}
		now.StateValue = &value
	}
	change, raw, err := decide(now)
	switch {
	case err != nil:
		return StateResult{}, nil, err
	case change == nil:
		return StateResult{}, raw, nil
	case change.Value == nil:
		return StateResult{Remove: true}, raw, nil
	}
	row := &StateRow{StateKey: key, Version: now.Next, Expires: change.Expires, Size: StateSize(key.Name, change.Value)}
	row.Sealed = j.keys.sealText(change.withLabels(), stateContext(row))
	return StateResult{Row: row}, raw, nil
}

// landed reports whether the segment of a change of state that begins with an event was written, although its write seemed to fail: only
// the confirmation may have been lost, or be late. unknown says why that cannot be found out.
func (j *Journal) landed(ctx context.Context, q *queuedWrite, first int) (landed bool, unknown error) {
	ctx = context.WithoutCancel(ctx)
	if err := j.driver.AwaitState(ctx, q.State.Owner); err != nil {
		return false, err
	}
	rec, err := j.driver.Load(ctx, q.ID, 0, 0)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for i := range rec.Segments {
		landed = landed || rec.Segments[i].Lease == q.Lease && rec.Segments[i].First == first
	}
	return landed, nil
}

// stateFault is the fault of a journal that could not be read or written.
func stateFault(err error) *fault.Error {
	f := fault.New(fault.Unavailable, "state cannot be used, since the journal cannot: %s", fault.Message(err))
	if errors.Is(err, ErrTaken) {
		f = fault.New(fault.Busy, "nothing was changed: another process has taken over this run and continues it")
	}
	f.Err, f.Outcome = err, fault.NotSent
	return f
}
