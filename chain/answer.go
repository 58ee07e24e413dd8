package chain

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// answerBuilder has everything that an answer could contain, before it is cut to the budget.
type answerBuilder struct {
	*requestState
	err          *fault.Error // nil: the answer is ok
	step         int          // the number of the step that err is about; -1: none
	index        int          // the element of a forEach that err is about; -1: none
	failed       *steps.Entry // the function that err is about; nil: none
	schemaHelp   schemaLevel  // how much of the function's schema the answer shows
	faults       []*fault.Error
	moreElements []facts.Element // failed elements of the step of err; unless onError is continue, without the one that index names
	outcome      fault.Outcome   // the outcome of the last call that writes in that step; "": there was none

	unstarted       []facts.Interval // elements of that step that never started
	unstartedReason string           // why they never started
	writeEntries    []*writeEntry
	writesSummed    bool // writeEntries is complete

	moreFaults int   // faults that were only counted
	ms         int64 // the time since the request came; taken once, so that the size of the answer is stable while it is fitted

	member       string // the name of result: "result" or "plan"
	result       []byte // nil: none
	isLean       bool   // result is the lean form of a write
	force        bool   // write the answer even if it does not fit
	exceedsAlone bool   // the result alone exceeds the budget, so nothing with it needs to be rendered
	run          *run   // nil: nothing ran
	stepTokens   []int  // by step: the tokens of its result
	storedTokens int    // the estimated tokens of the steps' results that are not the answer's
}

// report answers a run.
func (s *requestState) report(ctx context.Context, r *run) *Answer {
	b := &answerBuilder{requestState: s, step: -1, index: -1, member: "result", run: r}
	if r.isSuspended() {
		return b.suspendedAnswer(ctx)
	}
	b.findCause()
	for i := range r.steps {
		if r.steps[i].Truncated {
			s.warn(fault.New(fault.LimitExceeded, "%s returned only part of its result (truncated): raise its limit, or continue from next",
				plan.Describe(r.plan.Steps[i])).Under(r.plan.Steps[i].At))
		}
	}
	evalCtx, cancel := context.WithTimeout(ctx, max(s.limits.Duration, minReturnTime))
	defer cancel()
	raw, f := evalReturn(evalCtx, r.plan, r.steps, refs.Scope{Input: r.plan.Input, MaxBytes: int(s.o.MaxResultBytes), Now: s.now()})
	if f == nil && r.plan.Returned != nil {
		f = s.memory.Hold(len(raw))
	}
	if b.result = raw; f != nil {
		b.result = null
	}
	if f != nil && b.err == nil {
		b.setError(f)
	}
	if s.record != nil && b.err == nil {
		if f := s.conflictFault(s.record.Unmatched(), ""); f != nil {
			b.setError(f)
		}
	}
	undoes := r.plan.OnError == plan.OnErrorUndo && s.record != nil && len(r.awaitingApproval) == 0
	if undoes && b.err != nil && b.err.Code != fault.ResumeConflict {
		b.undoWrites(ctx)
	} else {
		b.recordUnfinished(journal.Failed)
	}
	b.useLeanForm(ctx)
	var a *Answer
	if b.err == nil && s.lite {
		a = b.liteAnswer(ctx)
	} else {
		b.countTokens()
		a = b.answer(ctx)
	}
	a.Defaulted = r.defaultedSteps()
	return a
}

func (r *run) defaultedSteps() (list []DefaultedStep) {
	for i := range r.steps {
		if s := &r.steps[i]; s.Defaulted > 0 {
			list = append(list, DefaultedStep{Step: i, ID: r.plan.Steps[i].ID, Count: s.Defaulted, Elements: s.Count})
		}
	}
	return list
}

// minReturnTime is how long `return` may take in any case, so that a chain that ran out of time still answers its results.
const minReturnTime = 10 * time.Second

// journalDownFault is the fault for steps that did not start because the journal could not record the end of a write.
func journalDownFault(at string) *fault.Error {
	return fault.New(fault.Unavailable,
		"the journal cannot be written: no further step was started; writes lists what the earlier steps did").Under(at)
}

// findCause sets the answer's error: that of the first failed step, or the reason why steps were skipped without a failure.
func (b *answerBuilder) findCause() {
	for i := range b.run.steps {
		s := &b.run.steps[i]
		if s.Status == facts.StatusFailed {
			b.step, b.index, b.failed, b.moreElements, b.outcome = i, s.Index, s.Failed, s.FailedElements, s.Outcome
			b.unstarted, b.unstartedReason = s.Unstarted, s.UnstartedReason
			b.setError(s.Err)
			return
		}
	}
	for i := range b.run.steps {
		at := b.run.plan.Steps[i].At
		if b.run.journalFailed.Load() && b.run.steps[i].Status == facts.StatusSkipped {
			b.step = i
			b.setError(journalDownFault(at))
			return
		}
		switch b.run.steps[i].Reason {
		case facts.ReasonCancelled:
			b.step = i
			b.setError(b.run.callerEndedFault(at))
		case facts.ReasonBudget:
			b.step = i
			b.setError(b.run.outOfTimeFault(at))
			if b.run.exhausted.Load() {
				b.setError(b.run.outOfCallsFault(at))
			}
		default:
			continue
		}
		return
	}
}

// setError makes f the answer's error.
func (b *answerBuilder) setError(f *fault.Error) {
	b.schemaHelp = schemaHelpFor(f)
	b.err = b.relocate(f)
	if b.single != nil {
		b.step = -1
	}
}

// schemaHelpFor chooses what an answer shows of the failed function: its schema if the arguments do not match it or refer to something that
// is missing, its signature if the function failed, an expression in its arguments failed, or its arguments exceed a limit, and nothing for
// other failures.
func schemaHelpFor(f *fault.Error) schemaLevel {
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

// countTokens counts the tokens of the steps' results.
func (b *answerBuilder) countTokens() {
	if b.single != nil {
		return
	}
	b.stepTokens = make([]int, len(b.run.steps))
	for i := range b.run.steps {
		raw := b.run.steps[i].Raw
		if raw == nil {
			continue
		}
		b.stepTokens[i] = b.meter.Estimate(raw)
		if i < len(b.run.steps)-1 || b.run.plan.Returned != nil {
			b.storedTokens += b.stepTokens[i]
		}
	}
}

// refuse answers a request that does not compile.
func (s *requestState) refuse(ctx context.Context, text []byte, p *plan.Plan, faults *plan.Faults) *Answer {
	list := faults.Sorted()
	if len(list) >= plan.HeavySteps { // reporting this many is heavy work
		var slot admit.Slot
		_ = slot.Acquire(ctx) // if the caller has left, the answer is written all the same
		defer slot.Release()
	}
	if s.single != nil {
		return s.refuseCall(ctx, p, list, faults.More)
	}
	plan.Locate(text, list)
	keepFirstCauses(list)
	n := len(list) + faults.More
	message := strconv.Itoa(n) + " faults"
	if n == 1 {
		message = "1 fault"
	}
	err := fault.New(fault.Compile, "%s", message)
	if later := plan.SourcesDownFault(list); later != nil && faults.More == 0 {
		err = later
	}
	b := &answerBuilder{requestState: s, err: err, step: -1, index: -1, faults: list, moreFaults: faults.More}
	a := b.answer(ctx)
	a.Faults = list
	return a
}

// keepFirstCauses keeps the cause of an unavailable source only in the first fault with that cause.
func keepFirstCauses(list []*fault.Error) {
	seen := map[string]bool{}
	for i, f := range list {
		state, cause, hasCause := strings.Cut(f.Message, ": ")
		if f.Code != fault.Unavailable || !hasCause {
			continue
		}
		if seen[cause] {
			copied := *f
			copied.Message = state + "; the first fault of this source says why"
			list[i] = &copied
		}
		seen[cause] = true
	}
}

// checkAnswer answers a check without faults.
func (s *requestState) checkAnswer(text []byte, p *plan.Plan) *Answer {
	if s.single == nil {
		plan.Locate(text, s.warnings)
	}
	a := (&answerBuilder{requestState: s, step: -1, index: -1}).answer(context.Background())
	a.Checked = &Checked{Steps: len(p.Steps), Counts: map[steps.Effect]int{}}
	p.CountEffects(a.Checked.Counts)
	return a
}

// Checked is the size of a plan that was checked.
type Checked struct {
	Steps  int                  // steps of the outermost chain
	Counts map[steps.Effect]int // how many steps, inline ones included, call functions of each effect
}

// failureAnswer answers an error that belongs to no step.
func (s *requestState) failureAnswer(ctx context.Context, f *fault.Error) *Answer {
	return (&answerBuilder{requestState: s, err: f, step: -1, index: -1}).answer(ctx)
}
