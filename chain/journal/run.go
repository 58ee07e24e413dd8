package journal

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// maxPending bounds, in bytes, the results of a run that are held until they are written. A run that may write writes them then; of
// one that only reads, further results are not kept, and a resume reads them again.
const maxPending = 1 << 20

// maxStored bounds, in bytes, the results of reads that are kept of one run.
const maxStored = 64 << 20

// maxEvents bounds the events of a run that are held until they are written.
const maxEvents = 1000

// maxSpare bounds the room for events that a run begins with.
const maxSpare = 32

// maxFunctions bounds the names of functions in a row.
const maxFunctions = 100

// Start is a run that begins, and what it needs to know.
type Start struct {
	Caller    string
	Scope     string        // the environment that the run is of; runs of several may stand in one journal
	Key       string        // the caller's own name for the run, in its scope; "": none
	Chain     string        // its name
	Hash      func() string // of the plan; it is called once, when it is written
	Text      []byte        // the chain, JSON
	Steps     int           // of its outermost level
	Functions []string
	Writes    bool // it may call functions that write
	Index     bool // what it does is looked up while it does it: calls that are taken back
	Recall    bool // its results as well: calls that wait for approval
	// Canonical is the one spelling of arguments that equal values share; nil: they are compared as they are spelled.
	Canonical func(args []byte) []byte
}

// Run is a run under way. Its methods may be called by many goroutines at once, those of one call by one after the other.
type Run struct {
	j         *Journal
	canonical func([]byte) []byte
	writes    bool
	hash      func() string
	began     time.Time // this time: a resume begins anew
	before    time.Duration
	recalls   bool  // past has results as well
	past      *Past // what it did, before it was resumed and since; nil: it was not, and nobody looks it up

	mu        sync.Mutex
	row       Row
	functions map[string]*Day // what was called, for the sums
	events    []Event         // that are not written yet
	next      int             // the number of the next event
	pending   int             // bytes of results in events
	stored    int             // of all reads so far
	ordinals  map[mac]int
	taken     map[*PastCall]string   // the calls that the chain has made, or taken as they were made, and where it has them now
	within    map[string][]*PastCall // of these, the writes of each inline chain, by the beginning of their places
	matched   int                    // how many of the writes of past, from the first on, are known to be
	written   bool                   // there is a row of it
	settled   bool
	broken    error // why no more can be written
}

type mac [macSize]byte

// leaseEvents is how many numbers each lease of a run has for its events, so that none of them is another's.
const leaseEvents = 10_000_000

// firstOf is the number of the first event under a lease.
func firstOf(lease int64) int { return int(lease-1)*leaseEvents + 1 }

// Begin begins a run. Nothing is written until it has to be.
func (j *Journal) Begin(s *Start) *Run {
	now := time.Now()
	functions := s.Functions
	if len(functions) > maxFunctions {
		functions = functions[:maxFunctions]
	}
	r := &Run{j: j, canonical: s.Canonical, writes: s.Writes, hash: sync.OnceValue(s.Hash), began: now, next: 1, functions: map[string]*Day{},
		events: make([]Event, 0, min(s.Steps, maxSpare)+1),
		row: Row{ID: newID(now), Caller: s.Caller, Key: scopedKey(s.Key, s.Scope), Chain: s.Chain, Functions: functions,
			Status: Running, Began: now, Last: now, Steps: s.Steps, Lease: 1}}
	if r.recalls = s.Recall; s.Index || s.Recall {
		r.past, r.taken = newPast(r.row), map[*PastCall]string{}
		r.past.Scope = s.Scope
	}
	r.add(Event{Kind: Sent, Chain: s.Text, Scope: s.Scope})
	return r
}

// Claim has the run written at once, so that it is the only one of its caller with its key. ErrTaken: there is another.
func (r *Run) Claim() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.await(r.segment(false))
}

// Values reports whether arguments and results are kept to be shown.
func (r *Run) Values() bool { return r.j.o.Values }

// ID names the run. Nobody can guess it.
func (r *Run) ID() string { return r.row.ID }

// Began is when the run began first, whichever of its resumes this is.
func (r *Run) Began() time.Time { return r.row.Began }

// Past is what the run did before it was resumed, and since; nil: it was not, and Start.Index was not set.
func (r *Run) Past() *Past { return r.past }

// add numbers an event, and gives the number.
func (r *Run) add(e Event) int {
	if e.N = r.next; e.At == 0 {
		e.At = r.began.Add(time.Since(r.began)).UnixMicro() // a clock that jumps meanwhile changes nothing
	}
	r.next++
	r.events = append(r.events, e)
	r.pending += len(e.Result) + len(e.Args)
	if r.past != nil && e.Kind != Sent && (e.Kind != Read || e.MAC != nil) {
		learned := e
		if e.Kind == Began || e.Kind == Read {
			learned.Args = nil // they are kept to be shown, and not looked up
		}
		if !r.recalls {
			learned.Result = nil
		}
		if c := r.past.follow(&learned); e.Kind == Began {
			r.take(c, e.Place)
		}
	}
	return e.N
}

// Resume takes a run up again that Take gave, which from then on is the Run's; s is nil where only what it did is taken back.
func (j *Journal) Resume(past *Past, s *Start) *Run {
	row := past.Row
	if s == nil {
		s = &Start{Writes: true, Steps: row.Steps, Hash: func() string { return row.Hash }}
	}
	r := &Run{j: j, canonical: s.Canonical, writes: s.Writes, recalls: true, hash: sync.OnceValue(s.Hash), began: time.Now(), before: row.Took, past: past,
		next: firstOf(row.Lease), functions: map[string]*Day{}, taken: map[*PastCall]string{}, row: row, written: true}
	r.row.Status, r.row.Code, r.row.Steps = Running, "", s.Steps
	for _, f := range s.Functions {
		if len(r.row.Functions) < maxFunctions && !slices.Contains(r.row.Functions, f) {
			r.row.Functions = append(slices.Clip(r.row.Functions), f)
		}
	}
	if s.Text != nil {
		r.add(Event{Kind: Sent, Chain: s.Text})
	}
	return r
}

var errRehearsal = errors.New("journal: nothing is written of a rehearsal")

// Tell adds an event, which is written with the next.
func (r *Run) Tell(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(e)
}

// count takes note of a call for the sums.
func (r *Run) count(function string, took time.Duration, failed bool) {
	d := r.functions[function]
	if d == nil {
		d = &Day{Function: function, Times: Times{}}
		r.functions[function] = d
	}
	d.Count++
	d.Times.Count(took)
	if failed {
		d.Failures++
	}
}

// await hands a write over, and returns when it is durable. r.mu is held, and given up meanwhile. The order of a run's writes is that in which they are handed over.
func (r *Run) await(w *write) error {
	w.result = make(chan error, 1)
	err := r.j.put(w)
	if err == nil {
		r.mu.Unlock()
		err = <-w.result
		r.mu.Lock()
	}
	if err != nil && r.broken == nil { // nothing can be written after a gap
		r.broken = err
	}
	if err != nil && w.New { // there is no run: nothing of it is written later
		r.written = false
	}
	return err
}

// segment makes a write of the events that are not written yet; last: there will be no more.
func (r *Run) segment(last bool) *write {
	if !last {
		r.number()
	}
	events := r.events
	size := r.pending + 200*len(events)
	r.events, r.pending = nil, 0
	now := time.Now()
	r.row.Last, r.row.Expires = now, now.Add(r.j.o.Keep)
	r.row.Took = r.before + now.Sub(r.began)
	row := r.row
	w := &write{size: size, Write: Write{ID: row.ID, Lease: row.Lease, New: !r.written, Row: &row}}
	r.written = true
	w.prepare = func(w *Write) {
		row.Hash = r.hash()
		r.numberAll(events)
		r.j.estimate(events)
		if len(events) > 0 {
			w.Segment = r.j.keys.sealEvents(w.ID, w.Lease, events)
		}
	}
	return w
}

// number finds out which of the run's equal calls the reads were that are not handed over yet.
func (r *Run) number() {
	for i := range r.events {
		if e := &r.events[i]; e.sent != nil {
			r.pending -= len(e.sent)
			r.numberOne(e)
		}
	}
}

// numberAll does so for events that were handed over.
func (r *Run) numberAll(events []Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range events {
		if e := &events[i]; e.sent != nil {
			r.numberOne(e)
		}
	}
}

func (r *Run) numberOne(e *Event) {
	e.MAC = r.macOf(e.Function, e.sent)
	e.Ordinal, e.sent = r.ordinal(mac(e.MAC)), nil
}

// estimate estimates the tokens of results.
func (j *Journal) estimate(events []Event) {
	if j.o.Estimate == nil {
		return
	}
	for i := range events {
		if result := events[i].Result; result != nil {
			events[i].Tokens = j.o.Estimate(result)
		}
	}
}

// Settle ends a run that is not ok, durably and before its answer leaves, and gives its lease back: whoever has the answer can
// go on with it. An error means that nobody can.
func (r *Run) Settle(status Status, code fault.Code) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken != nil || r.settled {
		return r.broken
	}
	r.row.Status, r.row.Code = status, code
	w := r.segment(false)
	w.Release = true
	err := r.await(w)
	r.settled = err == nil
	return err
}

// Answered tells what the run's answer cost. It ends a run that was not settled, which is ok; what a resume would need of it
// goes then, unless its caller may ask for the answer again (Start.Key). Nothing can be told of the run afterwards.
func (r *Run) Answered(tokens, kept int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken != nil && !r.settled {
		if r.written { // whoever goes on with it need not wait
			r.j.late(&write{Write: Write{ID: r.row.ID, Lease: r.row.Lease, Release: true}})
		}
		return
	}
	w := &write{Write: Write{ID: r.row.ID, Lease: r.row.Lease, Late: true}}
	if !r.settled {
		drop := r.row.Key == "" && !r.Values()
		for i := range r.events {
			if drop {
				r.events[i].Result = nil
			}
		}
		r.row.Status = OK
		wrote := r.written
		w = r.segment(true)
		w.Release, w.DropResults, w.must = true, drop && wrote, wrote
	}
	w.Tokens, w.Kept = tokens, kept
	segment, took := w.prepare, time.Since(r.began)
	w.prepare = func(w *Write) {
		if segment != nil {
			segment(w)
		}
		w.Days = r.days(tokens, kept, took)
	}
	if !r.settled && (r.row.Key != "" || r.row.Lease > 1) { // it may be asked for again at once
		_ = r.await(w)
		return
	}
	r.j.behind(w)
}

// regained is what a resume adds to the failures that are counted: a run counts once, by how it ended last.
func (r *Run) regained() int64 {
	switch before, now := r.past.Row.Status, r.row.Status; {
	case before == Failed && now == OK:
		return -1
	case before == Waiting && now == Failed:
		return 1
	}
	return 0
}

// days are the sums of what was done since the run began or was resumed.
func (r *Run) days(tokens, kept int, took time.Duration) []Day {
	r.mu.Lock()
	defer r.mu.Unlock()
	day := DayOf(r.began)
	whole := Day{Tokens: int64(tokens), Kept: int64(kept)}
	if r.row.Lease == 1 { // a resume, or an undo, is no other run
		whole.Count, whole.Times = 1, Times{}
		whole.Times.Count(took)
		if r.row.Status != OK && r.row.Status != Waiting {
			whole.Failures = 1
		}
	} else if r.past != nil {
		whole.Failures = r.regained()
	}
	list := make([]Day, 0, len(r.functions)+1)
	for _, d := range r.functions {
		whole.Calls += d.Count
		list = append(list, *d)
	}
	list = append(list, whole)
	chain := r.j.names.bounded(day, r.row.Caller, r.row.Chain)
	for i := range list {
		list[i].Day, list[i].Caller, list[i].Chain = day, r.row.Caller, chain
	}
	clear(r.functions)
	return list
}
