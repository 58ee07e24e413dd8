// Package run carries out a plan: it makes the calls, tells the ledger about them, and finds out why a run failed.
package run

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/ledger"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// Options say with what a run works. Its ledger has what is known of earlier attempts.
type Options struct {
	Ledger    *ledger.Ledger
	Functions *steps.Registry
	Caller    string
	State     []byte // the values of $state, by key
	Memory    *admit.Held

	MaxConcurrency int
	MaxElements    int
	MaxResultBytes int64
	MaxChainBytes  int64
	StepTimeout    time.Duration // of calls that undo others
	Laddered       bool          // decisions about a call depend on those before it in the session
	KeepArgs       bool          // the arguments of steps are kept
	Suspend        time.Duration // see Caller.Suspend

	Results  *budget.Results                                          // nil: functions can keep nothing
	Ask      func(context.Context, []facts.WaitingCall) (bool, error) // nil: nobody can be asked
	Progress func(facts.Progress)                                     // nil: not wanted
	Log      func(facts.LogMessage)                                   // nil: not wanted
	Observer Observer                                                 // nil: none
}

// Observer is notified of steps. They are passed as values, so that they need no allocation.
type Observer interface {
	StepBegins(ctx context.Context, p *plan.Step) (observed context.Context, ended any)
	StepEnded(ended any, s facts.Step)
}

// Run is a plan while it is executed, and its results afterwards.
type Run struct {
	o          *Options
	ledger     *ledger.Ledger
	plan       *plan.Plan
	steps      []facts.Step
	calls      atomic.Int64
	cached     atomic.Int64 // calls that the call cache answered
	projected  struct{ calls, members atomic.Int64 }
	httpStatus atomic.Int32 // the HTTP status that the last step's function reported; 0: none

	callWarnings     warningLog  // the warnings of functions
	exhausted        atomic.Bool // maxCalls is used up: a call was not made
	madeUnrepeatable atomic.Bool // a call was sent that is not safe to repeat
	journalFailed    atomic.Bool // the end of a write could not be recorded: no further step starts
	slots            slots
	ends             deadline
	results          results
	blocks           steps.Blocks

	approvals approvals
	conflicts conflicts
	pauses    *pauses         // nil: the run is never suspended
	callbacks steps.Callbacks // the callbacks that all calls have in common
	listener  listener
}

// stepRun is a step while it runs.
type stepRun struct {
	facts.Step
	frame           *facts.Frame  // the inline chain around the step; nil: the outermost chain
	call            *journal.Call // the last call that the journal has; nil: none
	earlierAttempts int           // attempts that were made before the run was suspended
	recalled        bool          // the result came from the journal, so a retry makes no sense
}

// New returns a run of a plan. ctx is that of its caller, without a time limit of its own.
func New(ctx context.Context, p *plan.Plan, o *Options) *Run {
	r := &Run{o: o, ledger: o.Ledger, plan: p, slots: make(chan struct{}, o.MaxConcurrency-1),
		ends: deadline{parent: ctx, limit: p.MaxDuration, pausable: o.Ask != nil && o.Ledger.Record != nil}}
	r.results.held, r.results.most, r.results.mostIn, r.results.limit = o.Memory, o.MaxResultBytes, o.MaxChainBytes, "limits.maxChainBytes"
	if p.MaxBytes < o.MaxChainBytes {
		r.results.mostIn, r.results.limit = p.MaxBytes, "budget.maxBytes"
	}
	r.blocks.Memory = &r.results
	return r
}

// Execute runs the plan. It returns when all steps that may run have ended.
func (r *Run) Execute(ctx context.Context) {
	ctx, cancel := r.ends.within(ctx, r.plan.MaxDuration, r.ends.outOfTime(""))
	defer cancel()
	ctx, stopWatching := r.watchPauses(ctx)
	defer stopWatching()
	r.callbacks = steps.Callbacks{Functions: r.o.Functions, Caller: r.o.Caller, Blocks: &r.blocks, Cached: func() { r.cached.Add(1) }}
	if r.o.Results != nil {
		r.callbacks.Keep, r.callbacks.Kept = r.o.keep, r.o.kept
	}
	if r.listener.progress, r.listener.log = r.o.Progress, r.o.Log; r.listener.wanted() {
		defer r.listener.stop()
	}
	if r.o.Laddered && steps.SessionOf(ctx) == nil {
		ctx = steps.WithSession(ctx, &steps.Session{}) // a session of this chain only
	}
	r.steps = r.runLevel(steps.WithCallbacks(ctx, &r.callbacks), r.plan, r.scope(), nil)
}

// scope is what the outermost chain can refer to before it has run.
func (r *Run) scope() refs.Scope {
	return refs.Scope{Input: r.plan.Input, State: r.o.State, MaxBytes: int(r.o.MaxResultBytes), Now: r.ledger.Now(), Blocks: &r.blocks}
}

// runLevel runs the steps of one level: a step starts when all steps in its `after` have ended.
func (r *Run) runLevel(ctx context.Context, p *plan.Plan, scope refs.Scope, frame *facts.Frame) []facts.Step {
	l := &loop{run: r, plan: p, scope: scope, frame: frame, steps: make([]facts.Step, len(p.Steps)), waiting: make([]int, len(p.Steps)),
		done: make(chan int, len(p.Steps)), slotless: noStep, reports: r.listener.wanted() && p == r.plan}
	l.scope.Steps = make([]refs.StepResult, len(p.Steps))
	l.indexDependents()
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

// loop is the state of one level's execution. Only its own goroutine writes to it, except for steps[i] while step i runs.
type loop struct {
	run          *Run
	plan         *plan.Plan
	scope        refs.Scope
	frame        *facts.Frame
	steps        []facts.Step
	waiting      []int // how many steps each step still waits for
	dependents   []int // the steps that wait for step i are dependents[dependentsAt[i]:dependentsAt[i+1]]
	dependentsAt []int
	ready        []int // steps that wait for nothing, in order
	running      int
	slotless     int  // a running step that needs no slot, since this goroutine only waits meanwhile; noStep: none
	failed       bool // a step of this level failed
	reports      bool // the front end is notified of this level's steps: it is the outermost level
	done         chan int
}

const noStep = -1

// wait waits until a step has ended, or a slot is free for one that is ready.
func (l *loop) wait(ctx context.Context) {
	var slot chan<- struct{}
	if len(l.ready) > 0 && !l.halted(ctx) && !l.fewCallsLeft() {
		slot = l.run.slots
	}
	l.run.pauses.add(-1)
	select {
	case i := <-l.done: // the ended step passes its share of pauses.atWork to this goroutine
		l.running--
		if l.slotless == i {
			l.slotless = noStep
		}
		l.finishStep(i)
	case slot <- struct{}{}:
		l.run.pauses.add(1)
		l.run.slots.free() // start takes it again, or another goroutine does
	}
}

// fewCallsLeft reports whether there are fewer calls left than ready steps. The steps then run in the order written.
func (l *loop) fewCallsLeft() bool {
	return int64(l.run.plan.MaxCalls)-l.run.calls.Load() < int64(len(l.ready))
}

// indexDependents finds which steps wait for which.
func (l *loop) indexDependents() {
	l.dependentsAt = make([]int, len(l.plan.Steps)+1)
	for i, s := range l.plan.Steps {
		l.waiting[i] = len(s.After)
		if len(s.After) == 0 {
			l.ready = append(l.ready, i)
		}
		for _, n := range s.After {
			l.dependentsAt[n+1]++
		}
	}
	for i := range l.plan.Steps {
		l.dependentsAt[i+1] += l.dependentsAt[i]
	}
	l.dependents = make([]int, l.dependentsAt[len(l.plan.Steps)])
	free := slices.Clone(l.dependentsAt)
	for i, s := range l.plan.Steps {
		for _, n := range s.After {
			l.dependents[free[n]] = i
			free[n]++
		}
	}
}

// start starts the steps that are ready, side by side as far as there are slots. A step that is alone, or that must not run beside the
// next, runs on this goroutine.
func (l *loop) start(ctx context.Context) {
	for len(l.ready) > 0 && !l.halted(ctx) {
		i := l.ready[0]
		s := l.plan.Steps[i]
		if cause, ok := l.failedDependency(s); ok {
			l.ready = l.ready[1:]
			l.steps[i] = skippedStep(s, facts.ReasonDependency)
			l.steps[i].Cause = cause
			l.finishStep(i)
			continue
		}
		runsAlone := len(l.ready) == 1 && l.running == 0 || l.fewCallsLeft()
		if l.slotless != noStep && (runsAlone || !l.run.slots.take()) {
			return // until a step ends or a slot is free
		}
		l.ready = l.ready[1:]
		if l.reports {
			l.reportProgress(facts.Progress{Step: i})
		}
		if runsAlone {
			l.steps[i] = l.run.runStep(l.withStepCallbacks(ctx, i), s, l.scope, l.frame)
			l.finishStep(i)
			continue
		}
		l.running++
		release := l.run.slots.free
		if l.slotless == noStep {
			l.slotless, release = i, func() {}
		}
		l.run.pauses.add(1)
		go func() {
			growStack()
			defer release()
			l.steps[i] = l.run.runStep(l.withStepCallbacks(ctx, i), s, l.scope, l.frame)
			l.done <- i
		}()
	}
}

// growStack grows the stack of a new goroutine while it is empty. Growing it later, step by step and with its contents, costs more than
// many calls do.
//
//go:noinline
func growStack() {
	var frame [8 << 10]byte
	runtime.KeepAlive(&frame)
}

// halted reports whether no further step may start.
func (l *loop) halted(ctx context.Context) bool {
	return (l.failed || l.run.exhausted.Load()) && l.plan.OnError != plan.OnErrorContinue || ctx.Err() != nil || l.run.mustStop()
}

// mustStop reports whether no further step may start, whatever onError says.
func (r *Run) mustStop() bool { return r.journalFailed.Load() || r.approvals.stopped.Load() }

// failedDependency finds a step that s needs and that has no result, and returns its cause: the step itself, if it failed or was skipped
// for want of calls or time, or the one for which it was skipped.
func (l *loop) failedDependency(s *plan.Step) (cause int, broken bool) {
	for _, n := range s.Needs {
		switch dependency := &l.steps[n]; {
		case dependency.Status == facts.StatusFailed, dependency.Pending:
			return n, true
		case dependency.Status == facts.StatusSkipped && dependency.Reason == facts.ReasonDependency:
			return dependency.Cause, true
		case dependency.Status == facts.StatusSkipped && dependency.Reason != facts.ReasonWhen:
			return n, true
		}
	}
	return 0, false
}

// finishStep records an ended step and makes those ready that waited for it.
func (l *loop) finishStep(i int) {
	s := &l.steps[i]
	l.scope.Steps[i] = refs.StepResult{Raw: s.Raw, Status: s.Status}
	l.failed = l.failed || s.Status == facts.StatusFailed
	for _, n := range l.dependents[l.dependentsAt[i]:l.dependentsAt[i+1]] {
		if l.waiting[n]--; l.waiting[n] == 0 {
			l.ready = append(l.ready, n)
		}
	}
	if l.reports {
		l.reportProgress(facts.Progress{Step: i, Ended: true, Status: s.ReportedStatus(), Reason: s.Reason, Err: s.Err, Took: s.Took,
			Elements: s.Count, Result: s.Raw})
	}
}

// skippedStep is what became of a step that was not run.
func skippedStep(p *plan.Step, reason string) facts.Step {
	return facts.Step{Planned: &p.Planned, Status: facts.StatusSkipped, Reason: reason, Index: -1, Count: -1}
}

// skipRest marks the steps that never started as skipped.
func (l *loop) skipRest(ctx context.Context) {
	for i := range l.steps {
		if l.steps[i].Status == "" {
			l.steps[i] = skippedStep(l.plan.Steps[i], l.run.skipReason(ctx))
		}
	}
}

// skipReason returns why steps, or elements of a forEach, did not start.
func (r *Run) skipReason(ctx context.Context) string {
	switch {
	case r.ends.parent.Err() != nil:
		return facts.ReasonCancelled
	case r.pauses.suspended():
		return facts.ReasonStopped
	case ctx.Err() != nil || r.exhausted.Load():
		return facts.ReasonBudget
	}
	return facts.ReasonStopped
}
