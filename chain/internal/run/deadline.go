package run

import (
	"context"
	"errors"
	"time"

	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// deadline is when a run must end: with its caller's context, or when its time is up.
type deadline struct {
	parent   context.Context // the caller's, without the chain's own limit
	limit    time.Duration
	pausable bool // the time until a person has decided does not count
}

func timeoutFault(p *plan.Step) *fault.Error {
	return fault.New(fault.Timeout, "%s did not answer within %v (timeoutMs)", plan.Describe(p), p.Timeout).Under(p.At)
}

// explain returns, for a call that was cut off, an error that names the limit: the step's time, the chain's time, or the caller's
// context. It keeps what the function answered until then. It returns any other error unchanged.
func (d *deadline) explain(ctx, callCtx context.Context, p *plan.Step, f *fault.Error) *fault.Error {
	if f == nil || callCtx.Err() == nil || f.Code != fault.Timeout && f.Code != fault.Cancelled {
		return f
	}
	if errors.Is(f, fault.ErrWaiting) && ctx.Err() == nil { // the call was not started, and its message says so
		return f
	}
	cause := timeoutFault(p)
	if most, progressed := steps.Progressed(callCtx); progressed {
		cause = fault.New(fault.Timeout, "%s did not answer within %v of its last progress, or within %v in all (timeoutMs)",
			plan.Describe(p), p.Timeout, most).Under(p.At)
	}
	if ctx.Err() != nil {
		cause = d.interrupted(p.At)
	}
	cause.Outcome, cause.Body = f.Outcome, f.Body
	return cause
}

// interrupted says why the chain's context ended while a step was running.
func (d *deadline) interrupted(at string) *fault.Error {
	if d.parent.Err() != nil {
		return d.callerEnded(at)
	}
	return d.outOfTime(at)
}

// callerEnded says why the caller's context ended. It is the fault that the context was cancelled with, if there is one.
func (d *deadline) callerEnded(at string) *fault.Error {
	if causeFault, ok := fault.As(context.Cause(d.parent)); ok && causeFault != nil {
		return causeFault.Under(at)
	}
	if errors.Is(d.parent.Err(), context.DeadlineExceeded) {
		return fault.New(fault.Timeout, "the caller's deadline passed").Under(at)
	}
	return fault.New(fault.Cancelled, "the client cancelled").Under(at)
}

func (d *deadline) outOfTime(at string) *fault.Error {
	return fault.New(fault.Timeout, "the chain's time of %v is used up (budget.maxDurationMs)", d.limit).Under(at)
}

// within returns a context that ends after limit. If the deadline can pause, the time until a decision does not count, and
// the context is cancelled with cause. Otherwise it ends with context.DeadlineExceeded.
func (d *deadline) within(ctx context.Context, limit time.Duration, cause *fault.Error) (context.Context, context.CancelFunc) {
	if !d.pausable {
		return context.WithTimeout(ctx, limit)
	}
	limited, cancel := context.WithCancelCause(ctx)
	c := &pausableTimer{outer: timerOf(ctx), remaining: limit, since: time.Now()}
	c.timer = time.AfterFunc(limit, func() { cancel(cause) })
	return &timerContext{limited, c}, func() {
		c.timer.Stop()
		cancel(nil)
	}
}
