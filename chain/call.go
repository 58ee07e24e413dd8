package chain

import (
	"context"
	"errors"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// step runs one step: its condition, then its one call or its forEach.
func (r *run) step(ctx context.Context, p *plannedStep, scope refs.Scope, within *enclosing) (s stepRun) {
	started := time.Now()
	s.within, s.index, s.count = within, -1, -1
	ctx, ended := r.beginStep(ctx, p)
	defer func() {
		if panicked := recover(); panicked != nil {
			s.fail(p, defect(p, panicked))
		}
		s.took = time.Since(started)
		s.endStep(p, ended)
	}()
	if p.when != nil {
		yes, err := p.when.True(ctx, &scope)
		if err != nil {
			r.end(ctx, p, &s, nil, coded(err, p.at+"/when"))
			return s
		}
		if !yes {
			s.status, s.reason, s.raw = statusSkipped, reasonWhen, null
			return s
		}
	}
	if p.forEach != nil {
		r.forEach(ctx, p, scope, &s)
		return s
	}
	raw, f := r.element(ctx, p, &scope, &s)
	r.end(ctx, p, &s, raw, f)
	return s
}

var null = []byte("null")

// end decides a step's status from its result or its failure; orElse stands in for a result, unless the whole chain is
// at its end.
func (r *run) end(ctx context.Context, p *plannedStep, s *stepRun, raw []byte, f *fault.Error) {
	if f == nil {
		if f = r.keep(p, raw); f != nil {
			raw = nil
		}
	}
	if f == nil {
		s.status, s.raw = statusOK, raw
		return
	}
	if s.pending {
		s.status = statusOK
		return
	}
	if errors.Is(f, errNoCalls) && s.calls == 0 {
		s.status, s.reason = statusSkipped, reasonBudget
		return
	}
	if r.defaults(ctx, p, s, f) && r.keep(p, p.orElse) == nil {
		s.status, s.raw, s.defaulted = statusOK, p.orElse, true
		s.standIn()
		return
	}
	s.fail(p, f)
	s.raw = raw
}

// standIn tells the journal that orElse has taken the place of a failure.
func (s *stepRun) standIn() {
	if s.call != nil {
		s.call.StoodIn()
	}
}

// defaults reports whether the step's orElse may stand in for a failure: never for a write of which nobody knows whether it was done,
// nor for a conflict, which somebody has to be told.
func (r *run) defaults(ctx context.Context, p *plannedStep, s *stepRun, f *fault.Error) bool {
	if p.orElse == nil || s.outcome == fault.SentUnknown || f.Code == fault.ResumeConflict {
		return false
	}
	return ctx.Err() == nil && !r.exhausted.Load() && !r.atEnd()
}

func (s *stepRun) fail(p *plannedStep, f *fault.Error) {
	s.status, s.err = statusFailed, f
	if s.fn == nil {
		s.fn = p.callee()
	}
}

// defect is what is told of a panic; only logs have its cause.
func defect(p *plannedStep, panicked any) *fault.Error {
	return stopped(panicked, "a defect of onecall stopped this step; the chain's other results stand").Under(p.at)
}

// coded makes err a coded error that has a place: its own, or at.
func coded(err error, at string) *fault.Error {
	f, ok := fault.As(err)
	if !ok {
		f = fault.New(fault.Internal, "%v", err)
		f.Err = err
	}
	if f.At == "" {
		f = f.Under(at)
	}
	return f
}

// element is one call, or one of a forEach's: the rounds of repeat, then select. The scope is the caller's to give away.
// A failed inline chain gives what it has beside the failure. What it gives is held.
func (r *run) element(ctx context.Context, p *plannedStep, scope *refs.Scope, s *stepRun) ([]byte, *fault.Error) {
	scope.Result = null
	var joined []byte // what collect has given
	for round := 1; ; round++ {
		raw, f := r.attempts(ctx, p, scope, s, round == 1)
		if f != nil {
			return raw, f
		}
		r.spared(len(scope.Result)) // of the round before
		if f := r.holdResult(p, len(raw)); f != nil {
			return nil, f
		}
		scope.Result = raw
		if p.until == nil {
			break
		}
		if p.collect != nil {
			if joined, f = r.collect(ctx, p, scope, joined); f != nil {
				return nil, f
			}
		}
		done, err := p.until.True(ctx, scope)
		if err != nil {
			return nil, coded(err, p.at+"/repeat/until")
		}
		if done {
			break
		}
		if round == p.maxRounds {
			return nil, fault.New(fault.LimitExceeded, "repeat.until was not true after %d calls", round).Under(p.at + "/repeat")
		}
		if err := pause(ctx, p.delay); err != nil {
			return nil, r.interrupted(p)
		}
	}
	if p.collect != nil {
		r.spared(len(scope.Result))
		scope.Result = joined
	}
	if p.selects == nil {
		return scope.Result, nil
	}
	raw, err := p.selects.Resolve(ctx, scope)
	r.spared(len(scope.Result))
	if err != nil {
		return nil, coded(err, p.at+"/select")
	}
	return raw, r.holdResult(p, len(raw))
}

// attempts is one round: the call, and its retries after failures that may pass.
func (r *run) attempts(ctx context.Context, p *plannedStep, scope *refs.Scope, s *stepRun, isFirst bool) ([]byte, *fault.Error) {
	var outcome fault.Outcome
	writes := p.fn != nil && p.effect != steps.Read
	if writes {
		defer func() { r.wrote(p, s, outcome) }()
	}
	args, f := r.arguments(ctx, p, scope, isFirst)
	if f != nil {
		return nil, f
	}
	defer r.spared(len(args))
	if r.trace == "full" && p.forEach == nil {
		s.args = args
	}
	wait := p.backoff
	s.call, s.recalled = nil, false
	for attempt := 0; ; attempt++ {
		raw, f := r.call(ctx, p, args, scope, s)
		if writes {
			outcome = fault.Combined(fault.Combined(outcome, outcomeOfCall(f)), s.unknownBefore())
		}
		if f == nil || attempt >= p.maxRetries || !mayPass(f.Code) || s.recalled || ctx.Err() != nil {
			return raw, f
		}
		if err := pause(ctx, wait); err != nil {
			return raw, f
		}
		wait *= 2
	}
}

// arguments resolves a call's arguments, which are held until it has ended; isFirst: of the first round.
func (r *run) arguments(ctx context.Context, p *plannedStep, scope *refs.Scope, isFirst bool) ([]byte, *fault.Error) {
	args := p.literal
	if p.args != nil {
		resolved, err := p.args.Resolve(ctx, nil, scope)
		if err != nil {
			return nil, coded(err, p.at+"/args")
		}
		if isFirst && len(p.leftOut) > 0 {
			resolved = withoutNulls(resolved, p.leftOut)
		}
		args = withCommon(resolved, p.common)
	}
	if f := r.hold(len(args)); f != nil {
		return nil, f.Under(p.at)
	}
	return args, nil
}

// mayPass reports whether a failure with this code may be gone at the next attempt.
func mayPass(code fault.Code) bool {
	return code == fault.FunctionFailed || code.Retryable()
}

// call calls the function, evaluates the expression or runs the inline chain, within the step's time.
func (r *run) call(ctx context.Context, p *plannedStep, args []byte, scope *refs.Scope, s *stepRun) ([]byte, *fault.Error) {
	if p.fn != nil {
		return r.callFunction(ctx, p, args, scope, s)
	}
	own := ctx
	if p.timeout > 0 {
		var cancel context.CancelFunc
		own, cancel = r.within(ctx, p.timeout, timedOut(p))
		defer cancel()
	}
	if p.inline != nil {
		raw, f := r.inline(own, p, args, scope, s)
		return raw, r.explain(ctx, own, p, f)
	}
	raw, err := p.expr.Eval(own, scope)
	if err != nil {
		return nil, r.explain(ctx, own, p, coded(err, p.at+"/expr"))
	}
	return raw, nil
}

// callFunction calls the step's function within its time, unless the journal knows what the call came to.
func (r *run) callFunction(ctx context.Context, p *plannedStep, args []byte, scope *refs.Scope, s *stepRun) ([]byte, *fault.Error) {
	sent, refused := p.fn.Accept(ctx, args)
	if refused == nil && r.record != nil {
		if raw, f, known := r.look(ctx, p, sent, scope, s); known {
			s.recalled = true
			return raw, f
		}
	}
	if r.calls.Add(1) > int64(r.plan.maxCalls) {
		r.exhausted.Store(true)
		return nil, r.callsUsedUp(p.at)
	}
	s.calls++
	if !p.repeatable {
		r.unsafe.Store(true)
	}
	if refused != nil {
		return nil, r.explain(ctx, ctx, p, refused.Under(inArguments(p, refused)))
	}
	own, cancel := ctx, context.CancelFunc(func() {})
	if p.timeout > 0 {
		own, cancel = context.WithTimeout(ctx, p.timeout)
	}
	defer cancel()
	raw, f := r.send(own, p, sent, scope, s)
	if f == nil {
		s.truncated = s.truncated || p.mayCut && gjson.GetBytes(raw, "truncated").Bool()
		return raw, nil
	}
	return nil, r.explain(ctx, own, p, f.Under(inArguments(p, f)))
}

// inArguments is where a function's fault lies: where it has a place, it speaks of its arguments.
func inArguments(p *plannedStep, f *fault.Error) string {
	if f.Code == fault.BadArguments || f.At != "" {
		return p.at + "/args"
	}
	return p.at
}

func timedOut(p *plannedStep) *fault.Error {
	return fault.New(fault.Timeout, "%s did not answer within %v (timeoutMs)", describe(p), p.timeout).Under(p.at)
}

// explain says of a call that was cut off whose time was up: the step's, the chain's, or the client's patience.
func (r *run) explain(ctx, own context.Context, p *plannedStep, f *fault.Error) *fault.Error {
	if f == nil || own.Err() == nil || f.Code != fault.Timeout && f.Code != fault.Cancelled {
		return f
	}
	if errors.Is(f, fault.ErrWaiting) && ctx.Err() == nil {
		return f
	}
	said := timedOut(p)
	if ctx.Err() != nil {
		said = r.interrupted(p)
	}
	said.Outcome = f.Outcome
	return said
}

// interrupted says why the chain's own context ended while a step was running.
func (r *run) interrupted(p *plannedStep) *fault.Error {
	if r.parent.Err() != nil {
		return r.callerEnded(p.at)
	}
	return r.timeUsedUp(p.at)
}

// callerEnded says how the caller's context ended: by the fault that it was cancelled with, if there is one.
func (r *run) callerEnded(at string) *fault.Error {
	if given, ok := fault.As(context.Cause(r.parent)); ok && given != nil {
		return given.Under(at)
	}
	if errors.Is(r.parent.Err(), context.DeadlineExceeded) {
		return fault.New(fault.Timeout, "the caller's deadline passed").Under(at)
	}
	return fault.New(fault.Cancelled, "the client cancelled").Under(at)
}

func (r *run) timeUsedUp(at string) *fault.Error {
	return fault.New(fault.Timeout, "the chain's time of %v is used up (budget.maxDurationMs)", r.maxDuration).Under(at)
}

func pause(ctx context.Context, d time.Duration) error {
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

// errNoCalls is the cause of the failure of a step that was refused its call.
var errNoCalls = errors.New("no calls left")

func (r *run) callsUsedUp(at string) *fault.Error {
	f := fault.New(fault.LimitExceeded, "the chain's %d calls are used up (budget.maxCalls)", r.plan.maxCalls).Under(at)
	f.Err = errNoCalls
	return f
}
