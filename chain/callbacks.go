package chain

import (
	"context"
	"slices"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// storeForCaller stores a value for the caller (Keep of steps.Callbacks).
func (r *run) storeForCaller(ctx context.Context, value []byte) (token string, err error) {
	token, _, err = r.form.Results.Keep(ctx, r.caller, value)
	return token, err
}

// withStepCallbacks adds the callbacks of one step to those of the run: warnings with the step's pointer, progress and logs for steps of
// the outermost chain, and the HTTP status of a write that may be answered in its lean form.
func (l *loop) withStepCallbacks(ctx context.Context, number int) context.Context {
	r, p := l.run, l.plan.Steps[number]
	warns := p.Inline == nil && (p.Rungs.Any || p.Fn != nil && slices.Contains(p.Fn.Spec().Results, steps.ResultContent))
	lean := l.plan == r.plan && number == len(l.steps)-1 && r.plan.AnswersWrite()
	if !warns && !lean && !l.reports {
		return ctx
	}
	callbacks := *steps.CallbacksOf(ctx)
	if warns {
		callbacks.Warn = func(f *fault.Error) { r.callWarnings.add(f.Under(p.At + "/args")) }
	}
	if lean {
		callbacks.Status = func(code int) { r.httpStatus.Store(int32(code)) }
	}
	if l.reports {
		callbacks.Progress = func(_ context.Context, done, total float64, message string) {
			l.reportProgress(Progress{Step: number, FunctionDone: done, FunctionTotal: total, Message: message})
		}
		callbacks.Log = func(_ context.Context, level, logger string, data []byte) {
			r.notify(func() {
				if r.log != nil {
					r.log(LogMessage{Step: number, Function: p.Name(), Level: level, Logger: logger, Data: data})
				}
			})
		}
	}
	return steps.WithCallbacks(ctx, &callbacks)
}

// notify calls the front end, one call at a time, unless the chain has ended. After a panic the front end is not called again; the chain
// continues.
func (r *run) notify(call func()) {
	r.listenerMu.Lock()
	defer r.listenerMu.Unlock()
	defer func() {
		if recover() != nil {
			r.progress, r.log = nil, nil
		}
	}()
	call()
}

// stopNotifying ends the calls to the front end, since an abandoned function may still be running.
func (r *run) stopNotifying() {
	r.notify(func() { r.progress, r.log = nil, nil })
}

// reportProgress reports the start, the progress or the end of a step, with the progress of the chain.
func (l *loop) reportProgress(p Progress) {
	step := l.plan.Steps[p.Step]
	p.ID, p.Function, p.Total = step.ID, step.Name(), len(l.steps)
	l.notify(func() {
		if p.Ended {
			l.endedSteps++
		}
		if p.Done = l.endedSteps; l.progress != nil {
			l.progress(p)
		}
	})
}
