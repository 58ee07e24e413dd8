package run

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/ledger"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// runStep runs one step: its condition, then its call or its forEach.
func (r *Run) runStep(ctx context.Context, p *plan.Step, scope refs.Scope, frame *facts.Frame) facts.Step {
	started := time.Now()
	// Index and Count -1: none; forEach sets them.
	s := stepRun{Step: facts.Step{Planned: &p.Planned, Index: -1, Count: -1}, frame: frame}
	var ended any
	if r.o.Observer != nil {
		ctx, ended = r.o.Observer.StepBegins(ctx, p)
	}
	r.carryOutStep(ctx, p, scope, &s)
	if s.Status == facts.StatusFailed || s.Defaulted > 0 { // there is no add(-1) for this: the run must not be suspended any more
		r.pauses.add(1)
	}
	s.Took = time.Since(started)
	if ended != nil {
		r.o.Observer.StepEnded(ended, s.Step)
	}
	return s.Step
}

// carryOutStep carries out a step, and turns a panic into its failure.
func (r *Run) carryOutStep(ctx context.Context, p *plan.Step, scope refs.Scope, s *stepRun) {
	defer func() {
		if panicked := recover(); panicked != nil {
			s.fail(p, stepPanicFault(p, panicked))
		}
	}()
	if p.When != nil {
		met, err := p.When.True(ctx, &scope)
		if err != nil {
			r.setStepStatus(ctx, p, s, nil, fault.From(err, p.At+"/when"))
			return
		}
		if !met {
			s.Status, s.Reason, s.Raw = facts.StatusSkipped, facts.ReasonWhen, null
			return
		}
	}
	if p.ForEach != nil {
		r.forEach(ctx, p, scope, s)
		return
	}
	raw, f := r.runElement(ctx, p, &scope, s)
	r.setStepStatus(ctx, p, s, raw, f)
}

var null = []byte("null")

// setStepStatus sets a step's status from its result or failure. orElse replaces a failure, unless the whole chain must stop.
func (r *Run) setStepStatus(ctx context.Context, p *plan.Step, s *stepRun, raw []byte, f *fault.Error) {
	if f == nil {
		if f = r.results.charge(p, raw); f != nil {
			raw = nil
		}
	}
	if f == nil {
		s.Status, s.Raw = facts.StatusOK, raw
		return
	}
	if s.Pending {
		s.Status = facts.StatusOK
		return
	}
	if r.pauses.suspended() {
		s.Status, s.Reason = facts.StatusSkipped, facts.ReasonStopped
		return
	}
	if errors.Is(f, errNoCalls) && s.Calls == 0 {
		s.Status, s.Reason = facts.StatusSkipped, facts.ReasonBudget
		return
	}
	if r.mayDefault(ctx, p, s, f) && r.results.charge(p, p.OrElse) == nil {
		s.Status, s.Raw, s.Defaulted = facts.StatusOK, p.OrElse, 1
		s.recordDefault()
		return
	}
	s.fail(p, f)
	s.Raw = raw
}

// recordDefault records in the journal that orElse replaced the failure.
func (s *stepRun) recordDefault() {
	if s.Recorded != nil {
		s.Recorded.RecordDefault()
	}
}

// mayDefault reports whether the step's orElse may replace a failure. It must not hide a write with an unknown outcome, or a conflict.
func (r *Run) mayDefault(ctx context.Context, p *plan.Step, s *stepRun, f *fault.Error) bool {
	if p.OrElse == nil || s.Outcome == fault.SentUnknown || f.Code == fault.ResumeConflict {
		return false
	}
	return ctx.Err() == nil && !r.exhausted.Load() && !r.mustStop()
}

func (s *stepRun) fail(p *plan.Step, f *fault.Error) {
	s.Status, s.Err = facts.StatusFailed, f
	if s.Failed == nil {
		s.Failed = p.Callee()
	}
}

// stepPanicFault is the fault for a step that panicked. Only logs show the cause.
func stepPanicFault(p *plan.Step, panicked any) *fault.Error {
	return fault.Panicked(panicked, "a defect of onecall stopped this step; the chain's other results stand").Under(p.At)
}

// runElement runs one call, or one element of a forEach: the rounds of repeat, then select. It overwrites scope.Result. If an inline
// chain fails, its result is returned together with the failure. The result counts as held.
func (r *Run) runElement(ctx context.Context, p *plan.Step, scope *refs.Scope, s *stepRun) (result []byte, f *fault.Error) {
	scope.Result = null
	var last, joined []byte // the last round's result, and what collect has joined so far; both count as held
	defer func() {
		if f != nil {
			r.o.Memory.Release(len(last) + len(joined))
		}
	}()
	for round := 1; ; round++ {
		s.LastCall = time.Time{}
		s.Truncated = s.Truncated && p.Collect == nil // the next round has read on
		raw, f := r.runRound(ctx, p, scope, s, round == 1)
		if f != nil {
			return raw, f
		}
		r.o.Memory.Release(len(last))
		last = nil
		if f := r.results.hold(p, len(raw)); f != nil {
			return nil, f
		}
		last, scope.Result = raw, raw
		if p.Until == nil {
			break
		}
		if p.Collect != nil {
			if joined, f = r.collectRound(ctx, p, scope, joined); f != nil {
				return nil, f
			}
		}
		done, err := p.Until.True(ctx, scope)
		if err != nil {
			return nil, fault.From(err, p.At+"/repeat/until")
		}
		if done {
			break
		}
		if round == p.MaxRounds {
			return nil, fault.New(fault.LimitExceeded, "repeat.until was not true after %d calls", round).Under(p.At + "/repeat")
		}
		if err := r.pauseAfter(ctx, p.Delay, s.LastCall); err != nil {
			return nil, r.ends.interrupted(p.At)
		}
	}
	if p.Collect != nil {
		r.o.Memory.Release(len(last))
		last, joined, scope.Result = joined, nil, joined
	}
	if p.Selector == nil {
		return last, nil
	}
	selected, err := p.Selector.Resolve(ctx, scope)
	if err != nil {
		return nil, fault.From(err, p.At+"/select")
	}
	r.o.Memory.Release(len(last))
	last = nil
	if f := r.results.hold(p, len(selected)); f != nil {
		return nil, f
	}
	return selected, nil
}

// runRound runs one round of repeat: the call, and its retries after transient failures.
func (r *Run) runRound(ctx context.Context, p *plan.Step, scope *refs.Scope, s *stepRun, isFirst bool) ([]byte, *fault.Error) {
	var outcome fault.Outcome
	writes := p.Fn != nil && p.Effect != steps.Read
	if writes {
		defer func() { s.logWrite(r.ledger, p, outcome) }()
	}
	args, f := r.resolveArguments(ctx, p, scope, isFirst)
	if f != nil {
		return nil, f
	}
	defer r.o.Memory.Release(len(args))
	if p.ForEach == nil && (r.o.KeepArgs || p.KeepArgs || p.Effect == steps.Destroy) {
		s.Args = r.blocks.Digests(args)
	}
	wait := p.Backoff
	s.call, s.Recorded, s.recalled, s.earlierAttempts = nil, nil, false, 0
	for attempt := 0; ; attempt++ {
		raw, f := r.call(ctx, p, args, scope, s)
		for ; attempt+1 < s.earlierAttempts; attempt++ { // attempts before the run was suspended count, and have doubled the pause
			wait *= 2
		}
		if writes {
			outcome = fault.Combine(fault.Combine(outcome, outcomeOfCall(f)), s.unknownEarlier())
		}
		if f == nil || attempt >= p.MaxRetries || !ledger.IsTransient(f.Code) || s.recalled || ctx.Err() != nil {
			return raw, f
		}
		if err := r.pauseAfter(ctx, wait, s.LastCall); err != nil {
			return raw, f
		}
		wait *= 2
	}
}

// resolveArguments resolves a call's arguments. They count as held until the call has ended. isFirst: it is the first round.
func (r *Run) resolveArguments(ctx context.Context, p *plan.Step, scope *refs.Scope, isFirst bool) ([]byte, *fault.Error) {
	args := p.Literal
	if p.Args != nil {
		resolved, err := p.Args.Resolve(ctx, nil, scope)
		if err != nil {
			return nil, fault.From(err, p.ArgsAt())
		}
		if isFirst && len(p.OmitIfNull) > 0 {
			resolved = withoutNulls(resolved, p.OmitIfNull)
		}
		args = plan.WithCommon(resolved, p.Common)
	}
	if p.Fn != nil { // a function can do nothing with the handle of a block
		args = r.blocks.MarkHandles(args)
	}
	if f := r.o.Memory.Hold(len(args)); f != nil {
		return nil, f.Under(p.At)
	}
	return args, nil
}

// call calls the function, evaluates the expression or runs the inline chain, within the step's timeout.
func (r *Run) call(ctx context.Context, p *plan.Step, args []byte, scope *refs.Scope, s *stepRun) ([]byte, *fault.Error) {
	if p.Fn != nil {
		return r.callFunction(ctx, p, args, scope, s)
	}
	callCtx := ctx
	if p.Timeout > 0 {
		var cancel context.CancelFunc
		callCtx, cancel = r.ends.within(ctx, p.Timeout, timeoutFault(p))
		defer cancel()
		r.pauses.add(1) // prevents a suspension: after it, this time limit would begin again
		defer r.pauses.add(-1)
	}
	if p.Inline != nil {
		raw, f := r.runInline(callCtx, p, args, scope, s)
		return raw, r.ends.explain(ctx, callCtx, p, f)
	}
	raw, err := p.Expr.Eval(callCtx, scope)
	if err != nil {
		return nil, r.ends.explain(ctx, callCtx, p, fault.From(err, p.At+"/expr"))
	}
	return raw, nil
}

// callFunction calls the step's function within its timeout, unless the journal has the result.
func (r *Run) callFunction(ctx context.Context, p *plan.Step, args []byte, scope *refs.Scope, s *stepRun) ([]byte, *fault.Error) {
	sent, refused := p.Fn.Accept(ctx, args)
	if refused == nil && r.ledger.Record != nil {
		if raw, f, settled := r.lookUp(ctx, p, sent, scope, s); settled {
			s.recalled = s.earlierAttempts == 0
			return raw, f
		}
	}
	if r.calls.Add(1) > int64(r.plan.MaxCalls) {
		r.exhausted.Store(true)
		return nil, r.outOfCallsFault(p.At)
	}
	s.Calls++
	if refused != nil { // it counts as a call all the same
		return nil, r.ends.explain(ctx, ctx, p, refused.Under(faultPointer(p, refused)))
	}
	callCtx, cancel := steps.WithLimit(ctx, p.Timeout, p.Patient)
	defer cancel()
	if p.Projection != nil {
		callCtx = r.beginProjected(callCtx, p)
	}
	raw, f := r.send(callCtx, p, sent, scope, s)
	s.LastCall = time.Now()
	r.noteSent(p, f)
	if f == nil {
		s.Truncated = s.Truncated || p.MayTruncate && gjson.GetBytes(raw, "truncated").Bool()
		if p.Projection != nil {
			return raw, nil // it lacks what was not asked for
		}
		if misfit := p.Fn.Misfit(raw); misfit != nil {
			r.callWarnings.addOnce(p.Fn.Spec().Name, misfit.Under(p.At))
		}
		return raw, nil
	}
	return nil, r.ends.explain(ctx, callCtx, p, f.Under(faultPointer(p, f)))
}

// beginProjected counts a call that asks only for some members of its result, and returns the context for it.
func (r *Run) beginProjected(ctx context.Context, p *plan.Step) context.Context {
	r.projected.calls.Add(1)
	r.projected.members.Add(int64(p.Projection.Unasked))
	return steps.WithPartialResult(ctx)
}

// noteSent notes that a call was made which is not safe to repeat, unless it failed before it was sent. f is its fault; nil: it succeeded.
func (r *Run) noteSent(p *plan.Step, f *fault.Error) {
	if !p.Repeatable && outcomeOfCall(f) != fault.NotSent {
		r.madeUnrepeatable.Store(true)
	}
}

// faultPointer returns the JSON Pointer for a function's fault: a fault with a place is about the arguments.
func faultPointer(p *plan.Step, f *fault.Error) string {
	if f.Code == fault.BadArguments || f.At != "" {
		return p.ArgsAt()
	}
	return p.At
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errNoCalls is the cause of the failure if maxCalls left no call for a step.
var errNoCalls = errors.New("no calls left")

func (r *Run) outOfCallsFault(at string) *fault.Error {
	f := fault.New(fault.LimitExceeded, "the chain's %d calls are used up (budget.maxCalls)", r.plan.MaxCalls).Under(at)
	f.Err = errNoCalls
	return f
}

// withoutNulls copies an object without the named members that are null.
func withoutNulls(object []byte, names []string) []byte {
	out := []byte{'{'}
	gjson.ParseBytes(object).ForEach(func(key, value gjson.Result) bool {
		if value.Type == gjson.Null && slices.Contains(names, key.Str) {
			return true
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, key.Raw...), ':'), value.Raw...)
		return true
	})
	return append(out, '}')
}
