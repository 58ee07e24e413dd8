package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// deadline is how long a call of the upstream may take, for each arm that can be told so.
const deadline = time.Second

// kind is a kind of fault.
type kind struct {
	name   string
	phases []bool // when it may strike: false: as a call arrives at the upstream, true: as its answer would leave
	breaks bool   // the connection of the call is broken off: as it arrives, the upstream does not see it
	twice  bool   // the answer is sent twice
	inject func(*trial)
	needs  func(system) bool // nil: any arm can have it
	// waits says that writes need an approval, and paused what happens when a run waits for one.
	waits  bool
	paused func(*trial)
}

var arrives, leaves = []bool{false}, []bool{true}
var both = []bool{false, true}

// kinds are the kinds of fault, each injected equally often.
var kinds = []kind{
	{name: "client killed", phases: both, inject: func(t *trial) { t.system.killClient() }},
	{name: "gateway killed", phases: both, inject: func(t *trial) { t.system.killGateway() },
		needs: func(s system) bool { return s.hasGateway() }},
	{name: "upstream killed", phases: both, breaks: true, inject: func(t *trial) {
		t.upstream.crash()
		time.AfterFunc(200*time.Millisecond, t.upstream.listen)
	}},
	{name: "request lost", phases: arrives, breaks: true, inject: func(*trial) {}},
	{name: "answer lost", phases: leaves, breaks: true, inject: func(*trial) {}},
	{name: "answer twice", phases: leaves, twice: true, inject: func(*trial) {}},
	{name: "answer after the deadline", phases: both, inject: func(*trial) { time.Sleep(deadline * 3 / 2) },
		needs: func(s system) bool { return s.hasDeadline() }},
	{name: "disk full", phases: both, inject: func(t *trial) { t.system.disk().fill() },
		needs: func(s system) bool { return s.disk() != nil }},
	{name: "database locked", phases: both, inject: func(t *trial) { go lockDatabase(t.system.database(), deadline*3/2) },
		needs: func(s system) bool { return s.database() != "" }},
	{name: "approval answered twice", phases: arrives, inject: func(*trial) {}, waits: true,
		needs: func(s system) bool { return s.approves() }},
	{name: "gateway killed before an approval", phases: arrives, inject: func(*trial) {}, waits: true,
		paused: func(t *trial) { t.system.killGateway() }, needs: func(s system) bool { return s.approves() && s.hasGateway() }},
}

// trial is one run of a task, in which one fault strikes at one call.
type trial struct {
	name     string // unique
	task     *task
	fault    fault
	system   system
	upstream *upstream
	seen     atomic.Int64 // calls that have arrived
	inFlight atomic.Int64 // calls that the upstream has not answered
	struck   bool         // the fault of a run that waits has struck
}

// fault is what strikes in a trial.
type fault struct {
	kind  *kind
	at    int  // the call at which it strikes, from 0
	after bool // as the answer would leave, not as the call arrives
}

// draw returns a trial: the next kind, and by chance a task, a call and a phase.
func draw(random *rand.Rand, n int, s system, u *upstream, possible []*kind) *trial {
	t := &trial{name: fmt.Sprintf("t%d", n), task: &tasks[random.IntN(len(tasks))], system: s, upstream: u}
	k := possible[n%len(possible)]
	t.fault = fault{kind: k, at: random.IntN(t.task.calls()), after: k.phases[random.IntN(len(k.phases))]}
	return t
}

// strikes counts a call that has arrived, and reports whether it is the one of the fault.
func (t *trial) strikes() bool { return t.seen.Add(1)-1 == int64(t.fault.at) }

// waits injects the fault of a run that waits for an approval. A system calls it each time, before it answers. The fault strikes once: the
// first time, or, if writes depend on others and the call drawn is an odd one, the first time after a write.
func (t *trial) waits() {
	later := t.task.staged() && t.fault.at%2 == 1
	if t.fault.kind.paused != nil && !t.struck && (!later || len(t.upstream.times(t)) > 0) {
		t.struck = true
		t.fault.kind.paused(t)
	}
}

// outcome is what a system says of a write.
type outcome string

const (
	applied outcome = "applied"
	undone  outcome = "not applied" // it was not sent, or has failed
	unknown outcome = "unknown"
)

// answer is what a system has answered when it stopped.
type answer struct {
	done      bool               // the whole task is done
	told      map[string]outcome // what it says of writes, by ref; it may say nothing
	asks      int                // outcomes that were looked up for it
	rewritten bool               // another program was written for it, as a model or a person does
	text      string             // the answer itself, or why there is none
}

// score is what became of a trial.
type score struct {
	twice, lost, wrong int // writes applied more than once; said to be applied, and not; otherwise told wrongly
	asks, rewritten    int // outcomes that a person or a model had to look up, and programs that they had to write
	stuck              bool
	why                string // what went wrong, for the comment
}

// The limits of a trial: how often it goes on, and how long all may take.
const (
	goingOn    = 8
	trialLimit = time.Minute
)

// play carries out a trial and scores it by the upstream's log.
func (t *trial) play(ctx context.Context) (s score) {
	ctx, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	t.upstream.play(t)
	defer t.upstream.play(nil)
	if d := t.system.disk(); d != nil {
		defer d.free() // of a run that has not noticed
	}
	a := t.system.begin(ctx, t)
	for i := 0; ; i++ {
		t.settle()
		s.check(t, a)
		s.asks += a.asks
		if a.rewritten {
			s.rewritten++
		}
		if a.done || i == goingOn || ctx.Err() != nil {
			break
		}
		if d := t.system.disk(); d != nil {
			d.free()
		}
		t.upstream.wait()
		a = t.system.goOn(ctx, t, a)
	}
	if s.stuck = !a.done; s.stuck {
		s.because(t, "does not go on: "+a.text)
	}
	for ref, n := range t.upstream.times(t) {
		if n > 1 {
			s.twice += n - 1
			s.because(t, fmt.Sprintf("%s was applied %d times", ref, n))
		}
	}
	return s
}

// settle waits until the upstream has answered all calls, so that its log does not change any more.
func (t *trial) settle() {
	for began := time.Now(); t.inFlight.Load() > 0 && time.Since(began) < trialLimit; {
		time.Sleep(time.Millisecond)
	}
}

// check compares what an answer says of the writes with the log.
func (s *score) check(t *trial, a answer) {
	times := t.upstream.times(t)
	for _, ref := range t.refs() {
		told := a.told[ref]
		if a.done {
			told = applied
		}
		switch {
		case told == applied && times[ref] == 0:
			s.lost++
			s.because(t, ref+" was answered as applied, and was not: "+a.text)
		case told == undone && times[ref] > 0:
			s.wrong++
			s.because(t, ref+" was answered as not applied, and was: "+a.text)
		}
	}
}

func (s *score) because(t *trial, why string) {
	if s.why == "" {
		s.why = fmt.Sprintf("%s, %s at call %d (after: %v): %.600s", t.task.name, t.fault.kind.name, t.fault.at, t.fault.after, why)
	}
}

// lookUp returns the id of a write that the log has; "": it was not applied. It is what a person or a model would look up.
func (t *trial) lookUp(ref string) (id string) {
	t.settle()
	return t.upstream.idOf(ref)
}
