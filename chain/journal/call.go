package journal

import (
	"strconv"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// Call is one call of a function in a run, with all its attempts.
type Call struct {
	StepPath      string
	Function      string
	Effect        string // write or destroy; "": it reads
	EffectAssumed bool   // the function does not declare its effect
	Args          []byte // the arguments as sent
	Shown         []byte // Args as people see them; stored if Run.StoresValues is true
	Undoes        int    // the number of the event whose call it undoes; 0: none
	Approval      string // the name of its approval; "": it needed none
	Rights        string // of a read: the rights that its result depends on, for those who reuse it; "": on none

	// KeyFor is how long a service knows the idempotency key of the call; negative: forever, 0: the call has none.
	KeyFor time.Duration
	// Commits: the call changes state by ChangeState, and nothing else. Begin then writes nothing, since nothing can be left half done.
	Commits bool
	// Restores is the version that the value of state gets which the call gives back, as an undo; 0: a new one, as any change.
	Restores int64
	// Renews: the call is made again after a resume, also if it was applied; see PreviousResult.
	Renews bool

	run         *Run
	mac         mac
	ordinal     int
	numbered    bool  // mac and ordinal of a read are known although the run is not resumed
	attempts    int   // how many attempts were made
	timesUndone int   // how often the call has been undone; part of its idempotency key
	startEvent  int   // the number of the Began or Read event of the last attempt; 0: none
	keyUntil    int64 // when the service forgets the key, counted from the first attempt, in µs since 1970; 0: not sent yet, or never
	started     time.Time
	previous    *PastCall // the same call as it was made before the run was resumed; nil: none
	task        string    // the task of the last attempt, if that may still do its work; "": none
	committed   bool      // the end of the last attempt is written

	committing *sync.Mutex // of a call that Commits: held while its change of state is under way; taken before run.mu
	settled    *Event      // see Settled
}

// Prepare finds which of the run's equal calls this is (Ordinal, Previous). It must be called before Begin and End.
func (r *Run) Prepare(c *Call) {
	c.run = r
	if c.Commits {
		c.committing = new(sync.Mutex)
	}
	if c.Effect == "" && r.past == nil {
		return // determined when the call is written
	}
	c.mac = mac(r.macOf(c.Function, c.Args))
	if c.Undoes != 0 { // no call of the chain equals it
		c.mac = mac(r.j.MAC([]byte("undo"), strconv.AppendInt(nil, int64(c.Undoes), 10), c.mac[:]))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c.ordinal = r.nextOrdinal(c.mac)
	if r.past != nil {
		if c.previous = r.past.call(c.mac, c.ordinal); c.previous != nil {
			c.timesUndone, c.task = c.previous.timesUndone, c.previous.Task()
		}
	}
}

func (r *Run) nextOrdinal(m mac) int {
	if r.ordinals == nil {
		r.ordinals = map[mac]int{}
	}
	n := r.ordinals[m]
	r.ordinals[m] = n + 1
	return n
}

func (r *Run) macOf(function string, args []byte) []byte {
	if r.canonical != nil {
		args = r.canonical(args)
	}
	return r.j.MAC([]byte(function), args)
}

// Previous returns the same call as it was made before the run was resumed, or nil.
func (c *Call) Previous() *PastCall { return c.previous }

// ContinueAttempts makes the next attempt follow those of Previous, which must not be nil, and returns their number.
func (c *Call) ContinueAttempts() int {
	c.attempts = c.previous.Attempt + 1
	return c.attempts
}

// Ordinal is the index of the call among the run's calls of this function with equal arguments. It is 0 for a read if Run.Past is nil: its
// ordinal is determined when it is written.
func (c *Call) Ordinal() int { return c.ordinal }

// Approved reports whether an approval with this name exists and was not used yet. Past must not be nil.
func (r *Run) Approved(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.past.approved[name]
}

// Denial returns the denial of the call with this name, as Past.Denial. Past must not be nil.
func (r *Run) Denial(name string) *Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.past.Denial(name)
}

// IdempotencyKey is the same for each attempt at this call in this run, and different for any other call; "": none.
func (c *Call) IdempotencyKey() string {
	if c.KeyFor == 0 {
		return ""
	}
	return c.run.j.idempotencyKey(c.run.row.ID, c.mac, c.ordinal, c.timesUndone)
}

// Begin records that a call, or a further attempt at it, is about to be made. For a write, it returns when that is durable; after an
// error the call must not be made.
func (c *Call) Begin() error {
	c.started = time.Now()
	if c.Effect == "" {
		c.run.j.writeSoon(c.run)
		return nil
	}
	r := c.run
	r.mu.Lock()
	defer r.mu.Unlock()
	c.committed, c.settled = false, nil
	if r.failure != nil || c.Commits {
		return r.failure
	}
	c.recordBegin()
	return r.awaitWrite(r.takeSegment(false))
}

// recordBegin adds the event of the beginning. r.mu is held.
func (c *Call) recordBegin() {
	r := c.run
	c.startEvent = r.appendEvent(c.beganEvent())
	c.countBegin()
}

// countBegin counts an attempt. r.mu is held.
func (c *Call) countBegin() {
	r := c.run
	c.attempts++
	r.mayRefuse = false
	c.count(&r.row, 1)
}

// count adds n attempts at the call to the sums of a row.
func (c *Call) count(row *Row, n int) {
	row.Calls += n
	c.countSent(row, n)
}

// countSent adds n attempts that were sent, or may have been, to the sums of a row.
func (c *Call) countSent(row *Row, n int) {
	if c.Undoes == 0 {
		row.Writes += n
	} else {
		row.Undos += n
	}
}

// beganEvent returns the event of the beginning of an attempt.
func (c *Call) beganEvent() Event {
	r := c.run
	e := Event{Kind: Began, StepPath: c.StepPath, Function: c.Function, Effect: c.Effect, EffectAssumed: c.EffectAssumed, MAC: c.mac[:],
		Ordinal: c.ordinal,
		Attempt: c.attempts, Undoes: c.Undoes, Key: c.IdempotencyKey()}
	if c.Approval != "" {
		e.Approvals = []string{c.Approval}
	}
	if r.StoresValues() {
		e.Args = c.Shown
	}
	if c.KeyFor > 0 {
		if c.keyUntil == 0 {
			c.keyUntil = time.Now().Add(c.KeyFor).UnixMicro()
		}
		if p := c.previous; p != nil && p.KeyUntil > 0 && p.Outcome != fault.Undone {
			c.keyUntil = min(c.keyUntil, p.KeyUntil)
		}
		e.KeyUntil = c.keyUntil
	}
	return e
}

// Task returns the task that an earlier attempt has begun and that may still do its work; "": there is none.
func (c *Call) Task() string { return c.task }

// ReportTask records that the service carries out the call as a task. For a write, it returns when that is durable.
func (c *Call) ReportTask(id string) error {
	if c.Effect == "" {
		return nil
	}
	r := c.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure != nil {
		return r.failure
	}
	c.task = id
	r.appendEvent(Event{Kind: Task, Of: c.startEvent, Args: []byte(id)})
	return r.awaitWrite(r.takeSegment(false))
}

// End records how a call, or an attempt at it, ended. For a write, it returns when that is durable. After an error the outcome is unknown
// in the journal, unless a later attempt to record it succeeds.
func (c *Call) End(e *Event) error {
	r, event := c.run, *e
	took := c.complete(&event)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.countCall(c.Function, took, event.Bytes, e.Code != "")
	if event.Outcome != fault.SentUnknown {
		c.task = ""
	}
	switch {
	case c.committed:
		return nil
	case c.Commits && r.failure != nil:
		return r.failure // nothing was changed
	case c.Commits:
		c.recordBegin()
	}
	if c.Effect != "" {
		if event.Outcome == fault.NotSent {
			c.countSent(&r.row, -1)
		}
		event.Kind, event.Of = Ended, c.startEvent
		r.appendEvent(event)
		w := r.takeSegment(false)
		err := r.awaitWrite(w)
		if err != nil {
			r.j.retryLater(w)
		}
		return err
	}
	r.row.Calls++
	event.Kind, event.StepPath, event.Function, event.Outcome, event.Scope = Read, c.StepPath, c.Function, "", c.Rights
	if e.Code != "" && r.past == nil && c.attempts == 0 { // a retry is the same call
		r.numberReads()
		c.mac = mac(r.macOf(c.Function, c.Args))
		c.ordinal, c.numbered = r.nextOrdinal(c.mac), true
	}
	if c.Approval != "" {
		event.Approvals = []string{c.Approval}
	}
	if r.past != nil || c.numbered {
		event.MAC, event.Ordinal, event.Attempt = c.mac[:], c.ordinal, c.attempts
	}
	c.attempts++
	if r.StoresValues() {
		event.Args = c.Shown
	}
	size := len(event.Result) + len(event.Args) + event.blockBytes()
	if r.storedBytes += size; !r.writes && r.pendingBytes+size > maxPending || r.storedBytes > maxStored {
		event.dropResult() // a resume reads it again
		event.Args = nil
		r.droppedResult = true
	}
	if event.MAC == nil {
		event.readArgs = c.Args
		r.pendingBytes += len(c.Args)
	}
	c.startEvent = r.appendEvent(event)
	r.j.writeSoon(r)
	if r.pendingBytes <= maxPending && len(r.events) < maxEvents {
		return nil
	}
	if r.writes && r.failure == nil { // reads become durable before the next write
		return r.awaitWrite(r.takeSegment(false))
	}
	switch {
	case r.writes || len(r.events) < maxEvents:
	case r.failure != nil: // nothing more of the run can be written
		r.events, r.pendingBytes = nil, 0
	case r.hasRow:
		_ = r.j.enqueue(r.takeSegment(false)) // if these reads are lost, a resume makes them again
	default: // awaited, since without its row nothing of the run can be written; a failure is none of the call
		_ = r.awaitWrite(r.takeSegment(false))
	}
	r.numberReads()
	return nil
}

// complete sets what the journal knows of an attempt's end, and returns how long the attempt took.
func (c *Call) complete(e *Event) (took time.Duration) {
	r, now := c.run, time.Now()
	if e.Message != "" {
		e.Message = r.j.shortMessage(e.Message)
	}
	took = now.Sub(c.started)
	e.At, e.Took, e.Bytes = r.resumedAt.Add(now.Sub(r.resumedAt)).UnixMicro(), took.Microseconds(), len(e.Result)
	return took
}

// RecordDefault records that another value replaced the failure of the call.
func (c *Call) RecordDefault() {
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	if c.startEvent > 0 {
		c.run.appendEvent(Event{Kind: Defaulted, Of: c.startEvent})
	}
}

// MatchPrevious records that the call is Previous. reuse says that the result of Previous is reused.
func (c *Call) MatchPrevious(reuse bool) {
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	c.run.match(c.previous, c.StepPath)
	if reuse {
		c.run.row.Reused++
	}
}
