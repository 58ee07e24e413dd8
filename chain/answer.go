package chain

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// draft is everything that an answer would tell if there were room.
type draft struct {
	*exchange
	err     *fault.Error // nil: ok
	step    int          // of err; -1: none
	index   int          // the forEach's element of err; -1: none
	failed  *steps.Entry // the function of err, nil: none
	teaches schemaLevel  // what failed takes has to do with err
	faults  []*fault.Error
	more    []elementFault // failed elements of the step of err, beside that of index with onError stop
	outcome fault.Outcome  // of the last call that writes of the step of err

	unstarted []interval // elements of that step
	skipped   string     // why they did not start
	entries   []*writeEntry
	summed    bool // entries has the writes

	moreFaults int   // beside faults, that were only counted
	ms         int64 // since the request came; taken once, so that an answer's size does not change while it is fitted

	member   string // the name of the result: "result" or "plan"
	result   []byte // nil: none
	leaned   bool   // result is the lean form of a write
	last     bool   // nothing more can be given up: it must be written
	hopeless bool   // the result alone passes the budget, and need not be written to see that
	run      *run   // nil: nothing ran
	tokens   []int  // of the run's steps
	kept     int
}

// report makes the answer of a run.
func (s *exchange) report(ctx context.Context, r *run) *Answer {
	d := &draft{exchange: s, step: -1, index: -1, member: "result", run: r}
	d.cause()
	for i := range r.steps {
		if r.steps[i].truncated {
			s.warn(fault.New(fault.LimitExceeded, "%s gave a part of its result only (truncated): raise its limit, or go on from next", describe(r.plan.steps[i])).Under(r.plan.steps[i].at))
		}
	}
	within, cancel := context.WithTimeout(ctx, max(s.maxDuration, leastReturn))
	defer cancel()
	raw, f := returned(within, r.plan, r.steps, refs.Scope{Input: r.plan.input, MaxBytes: int(s.o.MaxResultBytes), Now: s.now()})
	if f == nil && r.plan.ret != nil {
		f = s.hold(len(raw))
	}
	if d.result = raw; f != nil {
		d.result = null
	}
	if f != nil && d.err == nil {
		d.blame(f)
	}
	if s.record != nil && d.err == nil {
		if f := s.conflictOf(s.record.Unmatched(), ""); f != nil {
			d.blame(f)
		}
	}
	if d.err != nil && d.err.Code != fault.ResumeConflict && r.plan.onError == onErrorUndo && s.record != nil && len(r.awaited) == 0 {
		d.undo(ctx)
	} else {
		d.settle(journal.Failed)
	}
	d.shorten(ctx)
	if d.err == nil && s.lite {
		return d.bareAnswer(ctx)
	}
	d.measure()
	return d.answer(ctx)
}

// leastReturn is how long `return` may take at least, whatever time the chain had: what had ended is answered.
const leastReturn = 10 * time.Second

// journalAway is the fault for what was not started because the journal could not be told how a call ended.
func journalAway(at string) *fault.Error {
	return fault.New(fault.Unavailable, "the journal cannot be written: no further step was started, and what the steps before have done is told in writes").Under(at)
}

// cause finds what the answer's error is: the lowest failed step, or why steps were skipped without a failure.
func (d *draft) cause() {
	for i := range d.run.steps {
		s := &d.run.steps[i]
		if s.status == statusFailed {
			d.step, d.index, d.failed, d.more, d.outcome = i, s.index, s.fn, s.elements, s.outcome
			d.unstarted, d.skipped = s.unstarted, s.skipped
			d.blame(s.err)
			return
		}
	}
	for i := range d.run.steps {
		at := d.run.plan.steps[i].at
		if d.run.unwritten.Load() && d.run.steps[i].status == statusSkipped {
			d.step = i
			d.blame(journalAway(at))
			return
		}
		switch d.run.steps[i].reason {
		case reasonCancelled:
			d.step = i
			d.blame(d.run.callerEnded(at))
		case reasonBudget:
			d.step = i
			d.blame(d.run.timeUsedUp(at))
			if d.run.exhausted.Load() {
				d.blame(d.run.callsUsedUp(at))
			}
		default:
			continue
		}
		return
	}
}

// blame makes f the answer's error.
func (d *draft) blame(f *fault.Error) {
	d.teaches = teaches(f)
	d.err = d.placed(f)
	if d.single != nil {
		d.step = -1
	}
}

// teaches tells how much of what a function takes helps against a failure: its schema where the arguments do not fit it or
// could not be made, its signature where the function, or an expression, says no, and nothing where the world does.
func teaches(f *fault.Error) schemaLevel {
	inArgs := strings.Contains(f.At, "/args")
	switch f.Code {
	case fault.BadArguments, fault.ReferenceMissing:
		if inArgs {
			return schemaWhole
		}
	case fault.FunctionFailed:
		return schemaSignature
	case fault.BadExpression, fault.LimitExceeded:
		if inArgs {
			return schemaSignature
		}
	}
	return schemaNone
}

// measure counts what the steps' results would have cost.
func (d *draft) measure() {
	if d.single != nil {
		return
	}
	d.tokens = make([]int, len(d.run.steps))
	for i := range d.run.steps {
		raw := d.run.steps[i].raw
		if raw == nil {
			continue
		}
		d.tokens[i] = d.meter.Estimate(raw)
		if i < len(d.run.steps)-1 || d.run.plan.ret != nil {
			d.kept += d.tokens[i]
		}
	}
}

// refuse answers a request that does not compile.
func (s *exchange) refuse(ctx context.Context, text []byte, p *plan, faults *faultList) *Answer {
	list := faults.sorted()
	s.unwarn(list)
	if len(list) >= heavySteps { // to find and tell so many is heavy work
		var slot admit.Slot
		_ = slot.Acquire(ctx) // whoever has left is answered all the same
		defer slot.Release()
	}
	if s.single != nil {
		return s.refuseCall(ctx, p, list, faults.more)
	}
	Locate(text, list)
	tellOnce(list)
	n := len(list) + faults.more
	message := strconv.Itoa(n) + " faults"
	if n == 1 {
		message = "1 fault"
	}
	err := fault.New(fault.Compile, "%s", message)
	if later := away(list); later != nil && faults.more == 0 {
		err = later
	}
	d := &draft{exchange: s, err: err, step: -1, index: -1, faults: list, moreFaults: faults.more}
	a := d.answer(ctx)
	a.Faults = list
	return a
}

// tellOnce leaves the cause by which a source is down to the first of the faults that have it.
func tellOnce(list []*fault.Error) {
	told := map[string]bool{}
	for i, f := range list {
		state, cause, given := strings.Cut(f.Message, ": ")
		if f.Code != fault.Unavailable || !given {
			continue
		}
		if told[cause] {
			own := *f
			own.Message = state + "; why stands with the first fault of this source"
			list[i] = &own
		}
		told[cause] = true
	}
}

// checked answers a check without faults.
func (s *exchange) checked(text []byte) *Answer {
	if s.single == nil {
		Locate(text, s.warnings)
	}
	return (&draft{exchange: s, step: -1, index: -1}).answer(context.Background())
}

// failure answers an error that belongs to no step.
func (s *exchange) failure(ctx context.Context, f *fault.Error) *Answer {
	return (&draft{exchange: s, err: f, step: -1, index: -1}).answer(ctx)
}
