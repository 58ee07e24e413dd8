package journal

import (
	"strconv"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// Call is one call of a function that a run makes, with all its attempts.
type Call struct {
	Place    string
	Function string
	Effect   string // write or destroy; "" reads
	Guessed  bool   // nobody declared the effect
	Args     []byte // as they are sent
	Shown    []byte // as people may see them, kept if Values says so
	Undoes   int    // the number of the event whose call it takes back; 0: none
	Approval string // as what it was approved; "": it needed no approval

	// KeyFor is how long a service knows the idempotency key that the call has; below 0: for ever, 0: it has none.
	KeyFor time.Duration

	run      *Run
	mac      mac
	ordinal  int
	numbered bool // mac and ordinal are known of a read of a run that is not resumed
	attempt  int
	undone   int   // how often it was taken back before
	n        int   // of the event that tells that it began
	keyUntil int64 // counted from when it was sent first; 0: it was not
	started  time.Time
	previous *PastCall // the same call as it was made before the run was resumed; nil: it was not
}

// Prepare finds out which of the run's equal calls this is.
func (r *Run) Prepare(c *Call) {
	c.run = r
	if c.Effect == "" && r.past == nil {
		return // it is found out when the call is written
	}
	c.mac = mac(r.macOf(c.Function, c.Args))
	if c.Undoes != 0 { // no call of the chain equals it
		c.mac = mac(r.j.MAC([]byte("undo"), strconv.AppendInt(nil, int64(c.Undoes), 10), c.mac[:]))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c.ordinal = r.ordinal(c.mac)
	if r.past != nil {
		if c.previous = r.past.call(c.mac, c.ordinal); c.previous != nil {
			c.undone = c.previous.undone
		}
	}
}

func (r *Run) ordinal(m mac) int {
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

// Previous is the same call as it was made before the run was resumed; nil: it was not.
func (c *Call) Previous() *PastCall { return c.previous }

// Ordinal is the call's place among the run's calls with equal arguments, from 0.
func (c *Call) Ordinal() int { return c.ordinal }

// Approved reports whether a call may be made that needs approval, and that was not made since it was.
func (r *Run) Approved(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.past.approved[name]
}

// IdempotencyKey is the same for each attempt at this call in this run, and no other call has it; "": it has none.
func (c *Call) IdempotencyKey() string {
	if c.KeyFor == 0 {
		return ""
	}
	return c.run.j.idempotencyKey(c.run.row.ID, c.mac, c.ordinal, c.undone)
}

// Begin tells that a call, or a further attempt at it, is about to be made. Of one that writes, it returns when that is
// durable; an error means that the call must not be made.
func (c *Call) Begin() error {
	c.started = time.Now()
	if c.Effect == "" {
		return nil
	}
	r := c.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken != nil {
		return r.broken
	}
	e := Event{Kind: Began, Place: c.Place, Function: c.Function, Effect: c.Effect, Guessed: c.Guessed, MAC: c.mac[:], Ordinal: c.ordinal,
		Attempt: c.attempt, Undoes: c.Undoes, Key: c.IdempotencyKey()}
	if c.Approval != "" {
		e.Approvals = []string{c.Approval}
	}
	if r.Values() {
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
	c.n = r.add(e)
	c.attempt++
	r.row.Calls++
	r.row.Writes++
	return r.await(r.segment(false))
}

// End tells how a call, or an attempt at it, ended. Of one that writes it returns when that is durable; an error means that the
// journal goes on to say that nobody knows.
func (c *Call) End(e *Event) error {
	r, own, now := c.run, *e, time.Now()
	took := now.Sub(c.started)
	own.At, own.Took, own.Bytes = r.began.Add(now.Sub(r.began)).UnixMicro(), took.Microseconds(), len(e.Result)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(c.Function, took, e.Code != "")
	if c.Effect != "" {
		own.Kind, own.Of = Ended, c.n
		r.add(own)
		w := r.segment(false)
		err := r.await(w)
		if err != nil {
			r.j.late(w)
		}
		return err
	}
	r.row.Calls++
	own.Kind, own.Place, own.Function, own.Outcome = Read, c.Place, c.Function, ""
	if e.Code != "" && r.past == nil && c.attempt == 0 { // it may be tried again: that is no other call
		r.number()
		c.mac = mac(r.macOf(c.Function, c.Args))
		c.ordinal, c.numbered = r.ordinal(c.mac), true
	}
	if r.past != nil || c.numbered {
		own.MAC, own.Ordinal, own.Attempt = c.mac[:], c.ordinal, c.attempt
	}
	c.attempt++
	if r.Values() {
		own.Args = c.Shown
	}
	if r.stored += len(own.Result) + len(own.Args); !r.writes && r.pending+len(own.Result)+len(own.Args) > maxPending || r.stored > maxStored {
		own.Result, own.Args = nil, nil // a resume reads it again
	}
	if own.MAC == nil {
		own.sent = c.Args
		r.pending += len(c.Args)
	}
	c.n = r.add(own)
	if r.pending <= maxPending && len(r.events) < maxEvents {
		return nil
	}
	if r.writes && r.broken == nil { // what was read before a write is durable before it
		return r.await(r.segment(false))
	}
	if !r.writes && len(r.events) >= maxEvents {
		_ = r.j.put(r.segment(false))
	}
	r.number()
	return nil
}

// StoodIn tells that something else stands in for the failure of the call.
func (c *Call) StoodIn() {
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	if c.n > 0 {
		c.run.add(Event{Kind: StoodIn, Of: c.n})
	}
}

// Take tells that the call is the one that was made before. reuse: it is not made again.
func (c *Call) Take(reuse bool) {
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	c.run.take(c.previous, c.Place)
	if reuse {
		c.run.row.Reused++
	}
}
