package chain

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// The statuses of a step, and the reasons of a skipped one.
const (
	statusOK      = "ok"
	statusFailed  = "failed"
	statusSkipped = "skipped"
	statusReused  = "reused" // of an answer only: it is ok, and all its calls were taken from the journal

	reasonWhen       = "when"       // its condition was false; its result is null
	reasonDependency = "dependency" // a step that it refers to failed
	reasonStopped    = "stopped"    // an earlier failure stopped the chain
	reasonBudget     = "budget"     // maxCalls or maxDurationMs was used up
	reasonCancelled  = "cancelled"  // the client cancelled
)

// run is a plan while it is executed, and afterwards what came of it.
type run struct {
	*exchange
	plan       *plan
	steps      []stepRun
	calls      atomic.Int64
	cached     atomic.Int64 // calls that the call cache answered
	httpStatus atomic.Int32 // that the last step's function told of its success; 0: none
	bytes      atomic.Int64 // of the results kept

	noted     notes         // what functions have warned of
	exhausted atomic.Bool   // a call was refused: maxCalls are used up
	unsafe    atomic.Bool   // a function was called that is not safe to repeat
	unwritten atomic.Bool   // the journal could not be told how a call ended that wrote: no further step starts
	spare     chan struct{} // holds one for each goroutine beside the first: no more calls are under way at once

	rehearsal  bool           // nothing is called
	asking     sync.Mutex     // one approval is asked for at a time
	stopped    atomic.Bool    // a call that needs approval was not: no further step starts
	awaited    []ApprovalCall // the calls that wait for it
	foreseeing sync.Once
	foreseen   []*journal.PastCall // that the chain, as far as it can be foreseen, does not make
	doubts     []*journal.PastCall // of which nobody knows whether they were done; asking guards them

	parent context.Context // the caller's, without the chain's own deadline

	callbacks steps.Callbacks // of all calls
	listens   bool            // the front end wants progress or logs
	telling   sync.Mutex      // guards ended, and the front end's functions
	ended     int             // steps of the outermost chain
}

// stepRun is what came of one step.
type stepRun struct {
	status, reason string
	cause          int    // of a skip for a dependency: the step that failed first
	raw            []byte // the result after select; nil: none. A failed forEach keeps the elements that succeeded
	err            *fault.Error
	fn             *steps.Entry   // the function that failed: not the step's own in an inline chain
	within         *enclosing     // the inline chain that the step stands in; nil: the outermost chain
	index          int            // of the forEach's element that failed first, or that this is the run of; -1: none
	outcome        fault.Outcome  // of the last call that writes; "": there was none
	elements       []elementFault // that failed: with onError stop without the first
	unstarted      []interval     // elements that never started, as skipped says
	skipped        string         // the reason
	count          int            // elements of a forEach; -1: no forEach
	defaulted      bool
	truncated      bool // a call said that its result is a part only
	calls          int64
	reused         int64         // calls that were taken from the journal
	call           *journal.Call // the last one that the journal was told of; nil: none
	recalled       bool          // its result or failure came from the journal, and not from a call that could be tried again
	pending        bool          // in a rehearsal: it has calls that were not made yet
	took           time.Duration
	args           []byte // as resolved; only with trace full, and not for a forEach
}

type elementFault struct {
	index   int
	err     *fault.Error
	outcome fault.Outcome
	fn      *steps.Entry // that failed
}

// execute runs a plan. It ends when all steps that may run have ended.
func (s *exchange) execute(ctx context.Context, p *plan) *run {
	r := &run{exchange: s, plan: p, parent: ctx, spare: make(chan struct{}, s.o.MaxConcurrency-1)}
	s.ran = r
	if s.observation != nil {
		s.observation.run = r
	}
	ctx, cancel := s.within(ctx, s.maxDuration, r.timeUsedUp(""))
	defer cancel()
	r.callbacks = steps.Callbacks{Functions: r.view, Caller: r.owner, Cached: func() { r.cached.Add(1) }}
	if r.results != nil {
		r.callbacks.Keep = r.keepFor
	}
	if r.listens = s.progress != nil || s.log != nil; r.listens {
		defer r.silence()
	}
	if s.o.Rung != nil {
		defer r.noted.close(s)
		if steps.SessionOf(ctx) == nil {
			ctx = steps.WithSession(ctx, &steps.Session{}) // of the chain alone
		}
	}
	r.steps = r.chain(steps.WithCallbacks(ctx, &r.callbacks), p, refs.Scope{Input: p.input, MaxBytes: int(s.o.MaxResultBytes), Now: s.now()}, nil)
	return r
}

// chain runs the steps of one level, the only loop there is: a step starts when all steps in its `after` have ended.
func (r *run) chain(ctx context.Context, p *plan, scope refs.Scope, within *enclosing) []stepRun {
	l := &loop{run: r, plan: p, scope: scope, within: within, steps: make([]stepRun, len(p.steps)), waiting: make([]int, len(p.steps)),
		done: make(chan int, len(p.steps)), own: noStep, reports: r.listens && p == r.plan}
	l.scope.Steps = make([]refs.StepResult, len(p.steps))
	l.index()
	for {
		l.start(ctx)
		if l.running == 0 {
			break
		}
		l.wait(ctx)
	}
	l.skipRest(ctx)
	return l.steps
}

// loop is the state of one level's execution. Only its own goroutine writes to it, but for steps[i] while step i runs.
type loop struct {
	*run
	plan    *plan
	scope   refs.Scope
	within  *enclosing
	steps   []stepRun
	waiting []int // how many steps each step still waits for
	next    []int // the steps that wait for step i stand from nextOf[i] to nextOf[i+1]
	nextOf  []int
	ready   []int // steps that wait for nothing, in order
	running int
	own     int // the step that runs in the place of this goroutine, which only waits meanwhile; noStep: none
	failed  bool
	reports bool // the level's steps are told of: it is the outermost one, and the caller listens
	done    chan int
}

const noStep = -1

// wait waits until a step has ended, or one that is ready gets a place to run.
func (l *loop) wait(ctx context.Context) {
	var place chan<- struct{}
	if len(l.ready) > 0 && !l.halted(ctx) && !l.scarce() {
		place = l.spare
	}
	select {
	case i := <-l.done:
		l.running--
		if l.own == i {
			l.own = noStep
		}
		l.finish(i)
	case place <- struct{}{}:
		l.free() // for start, or whoever is faster
	}
}

// scarce reports whether the calls do not suffice for all that is ready: the steps then get them in the order written.
func (l *loop) scarce() bool {
	return int64(l.run.plan.maxCalls)-l.calls.Load() < int64(len(l.ready))
}

// index finds which steps wait for which.
func (l *loop) index() {
	l.nextOf = make([]int, len(l.plan.steps)+1)
	for i, s := range l.plan.steps {
		l.waiting[i] = len(s.after)
		if len(s.after) == 0 {
			l.ready = append(l.ready, i)
		}
		for _, n := range s.after {
			l.nextOf[n+1]++
		}
	}
	for i := range l.plan.steps {
		l.nextOf[i+1] += l.nextOf[i]
	}
	l.next = make([]int, l.nextOf[len(l.plan.steps)])
	free := slices.Clone(l.nextOf)
	for i, s := range l.plan.steps {
		for _, n := range s.after {
			l.next[free[n]] = i
			free[n]++
		}
	}
}

// start starts what is ready, side by side as far as the concurrency allows. A step that is alone, or must not run beside
// the next, runs on this goroutine.
func (l *loop) start(ctx context.Context) {
	for len(l.ready) > 0 && !l.halted(ctx) {
		i := l.ready[0]
		s := l.plan.steps[i]
		if cause, ok := l.brokenDependency(s); ok {
			l.ready = l.ready[1:]
			l.steps[i] = stepRun{status: statusSkipped, reason: reasonDependency, cause: cause, index: -1, count: -1}
			l.finish(i)
			continue
		}
		inTurn := len(l.ready) == 1 && l.running == 0 || l.scarce()
		if l.own != noStep && (inTurn || !l.another()) {
			return // until a step ends, or there is a place for another
		}
		l.ready = l.ready[1:]
		if l.reports {
			l.report(Progress{Step: i})
		}
		if inTurn {
			l.steps[i] = l.step(l.calling(ctx, i), s, l.scope, l.within)
			l.finish(i)
			continue
		}
		l.running++
		release := l.free
		if l.own == noStep {
			l.own, release = i, func() {}
		}
		go func() {
			growStack()
			defer release()
			l.steps[i] = l.step(l.calling(ctx, i), s, l.scope, l.within)
			l.done <- i
		}()
	}
}

// growStack makes room on a new goroutine's stack for what a step needs, while there is nothing on it: growing it later, bit by
// bit and with all that stands on it, costs more than many a call.
//
//go:noinline
func growStack() {
	var room [8 << 10]byte
	runtime.KeepAlive(&room)
}

// halted reports whether no further step may start.
func (l *loop) halted(ctx context.Context) bool {
	return (l.failed || l.exhausted.Load()) && l.plan.onError != onErrorContinue || ctx.Err() != nil || l.atEnd()
}

// atEnd reports whether no further step may start, whatever onError says.
func (r *run) atEnd() bool { return r.unwritten.Load() || r.stopped.Load() }

// another tries to get leave for one more goroutine; free gives it back.
func (r *run) another() bool {
	select {
	case r.spare <- struct{}{}:
		return true
	default:
		return false
	}
}

func (r *run) free() { <-r.spare }

// brokenDependency finds a step that s needs and that has no result, and the failure at its root.
func (l *loop) brokenDependency(s *plannedStep) (cause int, broken bool) {
	for _, n := range s.needs {
		switch of := &l.steps[n]; {
		case of.status == statusFailed, of.pending:
			return n, true
		case of.status == statusSkipped && of.reason != reasonWhen:
			return of.cause, true
		}
	}
	return 0, false
}

// finish takes note of an ended step and of those that waited for it.
func (l *loop) finish(i int) {
	s := &l.steps[i]
	l.scope.Steps[i] = refs.StepResult{Raw: s.raw, Status: s.status}
	l.failed = l.failed || s.status == statusFailed
	for _, n := range l.next[l.nextOf[i]:l.nextOf[i+1]] {
		if l.waiting[n]--; l.waiting[n] == 0 {
			l.ready = append(l.ready, n)
		}
	}
	if l.reports {
		l.report(Progress{Step: i, Ended: true, Status: s.told(), Reason: s.reason, Err: s.err, Took: s.took, Elements: s.count, Result: s.raw})
	}
}

// told is the status as callers read it.
func (s *stepRun) told() string {
	if s.status == statusOK && s.calls == 0 && s.reused > 0 {
		return statusReused
	}
	return s.status
}

// skipRest gives a status to the steps that never started, and to the run the reason when it is not a failed step.
func (l *loop) skipRest(ctx context.Context) {
	for i := range l.steps {
		if l.steps[i].status == "" {
			l.steps[i] = stepRun{status: statusSkipped, reason: l.skipReason(ctx), index: -1, count: -1}
		}
	}
}

// skipReason is why steps, or elements of a forEach, did not start.
func (r *run) skipReason(ctx context.Context) string {
	switch {
	case r.parent.Err() != nil:
		return reasonCancelled
	case ctx.Err() != nil || r.exhausted.Load():
		return reasonBudget
	}
	return reasonStopped
}
