package run

import (
	"context"
	"slices"
	"time"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// minReturnTime is how long `return` may take in any case, so that a chain that ran out of time still answers its results.
const minReturnTime = 10 * time.Second

// Finish returns the result of a run whose steps have ended, and why it failed, if it did.
func (r *Run) Finish(ctx context.Context) (result []byte, cause facts.Cause) {
	cause = r.findCause()
	for i := range r.steps {
		if r.steps[i].Truncated {
			r.callWarnings.add(fault.New(fault.LimitExceeded, "%s returned only part of its result (truncated): raise its limit, or continue from next",
				plan.Describe(r.plan.Steps[i])).Under(r.plan.Steps[i].At))
		}
	}
	evalCtx, cancel := context.WithTimeout(ctx, max(r.plan.MaxDuration, minReturnTime))
	defer cancel()
	result, f := r.evalReturn(evalCtx, r.plan, r.steps, r.scope())
	if f == nil && r.plan.Returned != nil {
		f = r.o.Memory.Hold(len(result))
	}
	if f != nil {
		result = null
	}
	if f == nil && r.ledger.Record != nil && cause.Err == nil {
		f = r.ledger.ConflictFault(r.ledger.Record.Unmatched(), "")
	}
	if cause.Err == nil {
		cause.Err = f
	}
	return result, cause
}

// findCause returns why the run failed: the failure of the first step that failed or, if calls wait for approval, that waits; or the reason
// why steps were skipped without a failure.
func (r *Run) findCause() facts.Cause {
	waits := func(s facts.Step) bool { return s.Status == facts.StatusFailed && s.Err.Code == fault.ApprovalRequired }
	anyWaits := slices.ContainsFunc(r.steps, waits)
	for i := range r.steps {
		s := &r.steps[i]
		if s.Status == facts.StatusFailed && (!anyWaits || waits(*s)) {
			return facts.Cause{Err: s.Err, Step: i, Index: s.Index, Failed: s.Failed, More: s.FailedElements, Outcome: s.Outcome,
				Unstarted: s.Unstarted, UnstartedReason: s.UnstartedReason}
		}
	}
	for i := range r.steps {
		at := r.plan.Steps[i].At
		cause := facts.Cause{Step: i, Index: -1}
		switch reason := r.steps[i].Reason; {
		case r.journalFailed.Load() && r.steps[i].Status == facts.StatusSkipped:
			cause.Err = journalDownFault(at)
		case reason == facts.ReasonCancelled:
			cause.Err = r.ends.callerEnded(at)
		case reason == facts.ReasonBudget && r.exhausted.Load():
			cause.Err = r.outOfCallsFault(at)
		case reason == facts.ReasonBudget:
			cause.Err = r.ends.outOfTime(at)
		default:
			continue
		}
		return cause
	}
	return facts.NoStep(nil)
}

// Facts returns what became of the run, for its answer.
func (r *Run) Facts() *facts.Run {
	last := r.plan.Steps[len(r.plan.Steps)-1]
	f := &facts.Run{Steps: r.steps, Returned: r.plan.Returned != nil, Whole: r.plan.AnswersStep(), Cached: r.cached.Load(),
		Projected:    facts.Projected{Calls: r.projected.calls.Load(), Members: r.projected.members.Load()},
		HTTPStatus:   int(r.httpStatus.Load()),
		Unrepeatable: r.madeUnrepeatable.Load(), Waiting: r.ledger.Waiting, Writes: r.ledger,
		Warnings: r.callWarnings.sorted()}
	f.Compared = r.plan.Compares
	if !f.Returned && last.Fn != nil && last.Selector == nil {
		f.Last.Heavy = last.Fn.Spec().Heavy
	}
	if f.Last.Writes = r.plan.AnswersWrite(); f.Last.Writes {
		f.Last.Deletes, f.Last.ForEach = plan.Deletes(last), last.ForEach != nil
	}
	return f
}

// journalDownFault is the fault for steps that did not start because the journal could not record the end of a write.
func journalDownFault(at string) *fault.Error {
	return fault.New(fault.Unavailable,
		"the journal cannot be written: no further step was started; writes lists what the earlier steps did").Under(at)
}

// FailedCall is what became of a call of a function that failed, as a run of this one step.
func FailedCall(ctx context.Context, fn *steps.Entry, f *fault.Error, o *Options) (*facts.Run, facts.Cause) {
	spec := fn.Spec()
	p := &plan.Step{Planned: facts.Planned{At: "/steps/0", Fn: fn}, Effect: spec.Effect, Repeatable: spec.Repeatable()}
	failed := stepRun{Step: facts.Step{Planned: &p.Planned, Index: -1, Count: -1, Calls: 1}}
	failed.fail(p, f.Under(faultPointer(p, f)))
	r := New(ctx, &plan.Plan{Steps: []*plan.Step{p}}, o)
	r.noteSent(p, f)
	if p.Effect != steps.Read {
		failed.logWrite(r.ledger, p, outcomeOfCall(f))
	}
	r.steps = []facts.Step{failed.Step}
	return r.Facts(), r.findCause()
}

// Blocks returns the blocks of the run.
func (r *Run) Blocks() *steps.Blocks { return &r.blocks }

// SuspendedUntil returns when a suspended run continues; zero: it was not suspended.
func (r *Run) SuspendedUntil() time.Time { return r.pauses.suspendedUntil() }
