package journal

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// maxPending bounds, in bytes, the results that a run holds until they are written. Beyond it, a run that may call functions
// that write (Start.Writes) puts them into the journal, and any other run drops further results, which a resume reads again.
const maxPending = 1 << 20

// maxStored bounds, in bytes, the stored results of a run's reads.
const maxStored = 64 << 20

// maxEvents bounds the events that a run holds until they are written.
const maxEvents = 1000

// eventBytes is about what an event takes in memory, without results and arguments.
const eventBytes = 200

// maxEventCapacity bounds the initial capacity for events.
const maxEventCapacity = 32

// maxFunctions bounds the names of functions in a row.
const maxFunctions = 100

// Start describes a run that begins or is resumed.
type Start struct {
	Caller      string
	Scope       string        // the environment of the run, if several share a journal
	Key         string        // the caller's name for the run, in its scope; "": none
	Parent      string        // id of the run that this one is a part of; "": none
	Chain       string        // the name of the chain
	Hash        func() string // returns the hash of the plan; called once, when the row is written
	Text        []byte        // the chain, JSON
	State       []byte        // the values of $state that the run sees, a JSON object; nil: as they were
	Labels      []byte        // what flow rules have to know of the chain's literals, whoever resumes the run; nil: nothing
	Credentials []string      // those with which the chain may call functions: only a request that brings them may continue the run
	Steps       int           // the number of steps of the outermost chain
	Functions   []string
	Writes      bool // it may call functions that write, or be suspended: results of reads are written once there are many
	Lookup      bool // calls are looked up during the run, to undo them
	KeepResults bool // results are looked up, too, for calls that wait for approval
	// Canonical returns the spelling that equal arguments share; nil: they are compared as they are.
	Canonical func(args []byte) []byte
}

// Run is a run under way. It is safe for concurrent use, but the methods for one call must not be called concurrently.
type Run struct {
	j            *Journal
	canonical    func([]byte) []byte
	writes       bool
	hash         func() string
	resumedAt    time.Time // when this part of the run began
	earlierTime  time.Duration
	keepsResults bool  // past has results, too
	past         *Past // what it has done, before and since it was resumed; nil: it was not resumed and needs no lookup

	mu            sync.Mutex
	row           Row
	functions     map[string]*Day        // calls by function, for the sums
	events        []Event                // the events that are not written yet
	nextEvent     int                    // the next event's number
	pendingBytes  int                    // the size of the results and arguments in events
	storedBytes   int                    // the size of the results of all reads, and of the arguments that are stored with them
	ordinals      map[mac]int            // by MAC: the ordinal of the next call
	matchedAt     map[*PastCall]string   // calls that the chain contains, with their paths in it
	writesByChain map[string][]*PastCall // writes of each inline chain, by the beginning of their paths
	accounted     int                    // how many leading writes of past are accounted for: AllMatched need not check them again
	hasRow        bool                   // the run has been written
	endWritten    bool                   // EndUnfinished has written the end
	droppedResult bool                   // the result of a read was not stored
	wasSuspended  bool                   // it was suspended before it was resumed
	mayRefuse     bool                   // it was resumed with a chain that has begun no write yet
	failure       error                  // why nothing more can be written; nil: it can
}

type mac [macSize]byte

// leaseEvents is how many event numbers each lease of a run has, so that numbers are unique.
const leaseEvents = 10_000_000

// firstOf returns the number of the first event under a lease.
func firstOf(lease int64) int { return int(lease-1)*leaseEvents + 1 }

// leaseOf returns the lease under which an event was numbered.
func leaseOf(event int) int64 { return int64(event-1)/leaseEvents + 1 }

// Begin begins a run. It writes nothing: the run is written by Claim, with its first call that writes, when it holds too many events, or at
// its end.
func (j *Journal) Begin(s *Start) *Run {
	now := time.Now()
	functions := s.Functions
	if len(functions) > maxFunctions {
		functions = functions[:maxFunctions]
	}
	r := &Run{j: j, canonical: s.Canonical, writes: s.Writes, hash: sync.OnceValue(s.Hash), resumedAt: now, nextEvent: 1,
		functions: map[string]*Day{},
		events:    make([]Event, 0, min(s.Steps, maxEventCapacity)+1),
		row: Row{ID: newID(now), Caller: s.Caller, Key: scopedKey(s.Key, s.Scope), Parent: s.Parent, Scope: s.Scope, Chain: s.Chain,
			Functions: functions, Status: Running, Began: now, Last: now, Steps: s.Steps, Lease: 1}}
	if r.keepsResults = s.KeepResults; s.Lookup || s.KeepResults {
		r.past, r.matchedAt = newPast(r.row), map[*PastCall]string{}
	}
	r.appendEvent(Event{Kind: Sent, Chain: s.Text, Scope: s.Scope, Args: s.State, Undo: s.Labels, Approvals: s.Credentials})
	return r
}

// Claim writes the run at once, so that no other run of its caller can have its key. It fails with ErrTaken if another run has the key.
func (r *Run) Claim() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.awaitWrite(r.takeSegment(false))
}

// HandOver records that workers take the run over, and returns its lease. EndUnfinished then releases the run to them.
func (r *Run) HandOver() (lease int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.appendEvent(Event{Kind: Handed})
	r.row.HandoverLease = r.row.Lease
	return r.row.Lease
}

// WasSuspended reports whether the run was resumed after it had been suspended; see Past.IsSuspended.
func (r *Run) WasSuspended() bool { return r.wasSuspended }

// DroppedResult reports whether the result of a read was not stored, so that a resume reads it again.
func (r *Run) DroppedResult() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.droppedResult
}

// StoresValues reports whether arguments and results are stored to be shown.
func (r *Run) StoresValues() bool { return r.j.o.Values }

// ID identifies the run. It cannot be guessed.
func (r *Run) ID() string { return r.row.ID }

// Lease returns the number of the lease under which the run goes on.
func (r *Run) Lease() int64 { return r.row.Lease }

// Began returns when the run began, before any resume.
func (r *Run) Began() time.Time { return r.row.Began }

// Past returns what the run has done before and since it was resumed; nil: it was not resumed, and neither Start.Lookup nor
// Start.KeepResults is set.
func (r *Run) Past() *Past { return r.past }

// appendEvent numbers an event, adds it to events and past, and returns the number. r.mu is held, unless nobody else has r yet.
func (r *Run) appendEvent(e Event) int {
	r.number(&e)
	r.events = append(r.events, e)
	r.pendingBytes += len(e.Result) + len(e.Args) + e.blockBytes()
	r.learn(&e)
	return e.N
}

// number gives an event the next number, and a time unless it has one. r.mu is held, unless nobody else has r yet.
func (r *Run) number(e *Event) {
	if e.N = r.nextEvent; e.At == 0 {
		e.At = r.resumedAt.Add(time.Since(r.resumedAt)).UnixMicro() // a clock that jumps does not matter
	}
	r.nextEvent++
	r.row.LastLease = r.row.Lease
}

// learn adds a numbered event to past. r.mu is held, unless nobody else has r yet.
func (r *Run) learn(e *Event) {
	if r.past == nil || e.Kind == Sent || e.Kind == Read && e.MAC == nil {
		return
	}
	event := *e
	if e.Kind == Began || e.Kind == Read {
		event.Args = nil // stored to be shown, not to be looked up
	}
	if !r.keepsResults {
		event.dropResult()
	}
	if c := r.past.apply(&event); e.Kind == Began {
		r.match(c, e.StepPath)
	}
}

// Resume continues a run that Acquire returned. The Run owns past from then on. s is nil if the chain is not run again, but the run's calls
// are undone, approved or denied, or its status is set. A run that Read returned has no lease: it may only be rehearsed (Run.Rehearse).
func (j *Journal) Resume(past *Past, s *Start) *Run {
	row := past.Row
	if s == nil {
		s = &Start{Writes: true, Steps: row.Steps, Hash: func() string { return row.Hash }}
	}
	r := &Run{j: j, canonical: s.Canonical, writes: s.Writes, keepsResults: true, hash: sync.OnceValue(s.Hash), resumedAt: time.Now(),
		earlierTime: row.Took, past: past,
		nextEvent: firstOf(row.Lease), functions: map[string]*Day{}, matchedAt: map[*PastCall]string{}, row: row, hasRow: true}
	r.row.Status, r.row.Code, r.row.Steps = Running, "", s.Steps
	for i := range past.Events {
		if e := &past.Events[i]; e.Kind == Read {
			r.storedBytes += len(e.Result) + e.blockBytes()
		}
	}
	for _, f := range s.Functions {
		if len(r.row.Functions) < maxFunctions && !slices.Contains(r.row.Functions, f) {
			r.row.Functions = append(slices.Clip(r.row.Functions), f)
		}
	}
	r.wasSuspended = past.IsSuspended()
	if s.Text != nil && !(r.wasSuspended && bytes.Equal(s.Text, past.Chain)) { // a run that polls is resumed a thousand times
		r.appendEvent(Event{Kind: Sent, Chain: s.Text, Args: s.State, Undo: s.Labels, Approvals: s.Credentials})
		r.mayRefuse = true
	}
	return r
}

var errRehearsal = errors.New("journal: nothing is written of a rehearsal")

// Append adds an event, which is written with the next write.
func (r *Run) Append(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.appendEvent(e)
}

// maxBy bounds the name of who decided, in characters.
const maxBy = 60

func clipBy(by string) string { return fault.ClipRunes(by, maxBy) }

// Decide adds the event that calls with these names were approved or denied, by whom and why; see Event.Decision.
func (r *Run) Decide(kind Kind, names []string, by, reason string) {
	e := Event{Kind: kind, Approvals: names, Message: clipBy(by)}
	if reason != "" {
		e.Args = []byte(r.j.shortMessage(reason))
	}
	r.Append(e)
}

// countCall adds a call, which took so long and gave so many bytes, to the sums.
func (r *Run) countCall(function string, took time.Duration, bytes int, failed bool) {
	d := r.functions[function]
	if d == nil {
		counted := &struct { // one allocation
			Day
			sizes [4]SizeCount
		}{Day: Day{Function: function, Times: Times{}}}
		d = &counted.Day
		d.Sizes = counted.sizes[:0]
		r.functions[function] = d
	}
	d.Count++
	d.Times.Count(took)
	if failed {
		d.Failures++
	} else {
		d.Sizes.Count(bytes)
	}
}

// awaitWrite enqueues a write and returns when it is durable. r.mu is held, and released meanwhile. A run's writes are carried out in the
// order of these calls.
func (r *Run) awaitWrite(w *queuedWrite) error {
	err := r.tryWrite(w)
	if err != nil && r.failure == nil { // nothing can be written after a gap
		r.failure = err
	}
	return err
}

// tryWrite is like awaitWrite. After an error the run's later writes are still carried out: the caller says what becomes of the gap.
func (r *Run) tryWrite(w *queuedWrite) error {
	w.done = make(chan error, 1)
	err := r.j.enqueue(w)
	if err == nil {
		r.mu.Unlock()
		err = <-w.done
		r.mu.Lock()
	}
	if err != nil && w.New { // there is no run, so nothing of it can be written later
		r.hasRow = false
		if w.State == nil { // of a change of state it is found out whether it was written
			r.releaseLost(w, err)
		}
	}
	return err
}

// releaseLost releases the lease of a new run that was not written: if only the confirmation was lost, the run's key must not stay taken.
func (r *Run) releaseLost(w *queuedWrite, err error) {
	if w.New && r.row.Key != "" && !errors.Is(err, ErrTaken) {
		r.j.releaseLater(w.ID, w.Lease)
	}
}

// takeSegment returns a write of the events that are not written yet; last: there will be no more.
func (r *Run) takeSegment(last bool) *queuedWrite {
	if !last {
		r.numberReads()
	}
	events := r.events
	size := r.pendingBytes + eventBytes*len(events)
	r.events, r.pendingBytes = nil, 0
	now := time.Now()
	r.row.Last, r.row.Expires = now, now.Add(r.j.o.Keep)
	if r.row.Took = r.earlierTime + now.Sub(r.resumedAt); r.row.Batch {
		r.row.Took = now.Sub(r.row.Began)
	}
	row := r.row
	q := &queuedWrite{size: size, events: events, Write: Write{ID: row.ID, Lease: row.Lease, New: !r.hasRow, Row: &row}}
	r.hasRow = true
	q.prepare = func(w *Write) {
		row.Hash = r.hash()
		r.numberTaken(q.events)
		r.j.estimate(q.events)
		if len(q.events) > 0 {
			w.Segment = r.j.keys.sealEvents(w.ID, w.Lease, q.events)
		}
	}
	return q
}

// numberReads sets the ordinals of reads that are not in a segment yet.
func (r *Run) numberReads() {
	for i := range r.events {
		if e := &r.events[i]; e.readArgs != nil {
			r.pendingBytes -= len(e.readArgs)
			r.numberRead(e)
		}
	}
}

// numberTaken sets the ordinals of the reads among events that takeSegment took.
func (r *Run) numberTaken(events []Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range events {
		if e := &events[i]; e.readArgs != nil {
			r.numberRead(e)
		}
	}
}

func (r *Run) numberRead(e *Event) {
	e.MAC = r.macOf(e.Function, e.readArgs)
	e.Ordinal, e.readArgs = r.nextOrdinal(mac(e.MAC)), nil
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
