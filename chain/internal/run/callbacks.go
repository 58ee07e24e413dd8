package run

import (
	"context"
	"slices"
	"sync"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// keep stores a value for the caller (Keep of steps.Callbacks).
func (o *Options) keep(ctx context.Context, value []byte) (token string, err error) {
	token, _, err = o.Results.Keep(ctx, o.Caller, value)
	return token, err
}

// kept returns a value that the caller has kept (Kept of steps.Callbacks). It is held while it is read: as a result it is held again.
func (o *Options) kept(ctx context.Context, token string) ([]byte, error) {
	value, _, err := o.Results.WithReserve(o.Memory.Reserve).Value(ctx, o.Caller, token)
	o.Memory.Release(len(value))
	return value, err
}

// withStepCallbacks adds the callbacks of one step to those of the run: warnings with the step's pointer, progress and logs for steps of
// the outermost chain, and the HTTP status of a write that may be answered in its lean form.
func (l *loop) withStepCallbacks(ctx context.Context, number int) context.Context {
	r, p := l.run, l.plan.Steps[number]
	warns := p.Inline == nil && (p.Rungs.Any || p.Fn != nil && slices.Contains(p.Fn.Spec().Results, steps.ResultContent))
	lean := l.plan == r.plan && number == len(l.steps)-1 && r.plan.AnswersWrite()
	if !warns && !lean && !l.reports && len(p.Labels) == 0 {
		return ctx
	}
	callbacks := *steps.CallbacksOf(ctx)
	callbacks.Labels = p.Labels
	if warns {
		callbacks.Warn = func(f *fault.Error) { r.callWarnings.add(f.Under(p.ArgsAt())) }
	}
	if lean {
		callbacks.Status = func(code int) { r.httpStatus.Store(int32(code)) }
	}
	if l.reports {
		callbacks.Progress = func(_ context.Context, done, total float64, message string) {
			l.reportProgress(facts.Progress{Step: number, FunctionDone: done, FunctionTotal: total, Message: message})
		}
		callbacks.Log = func(_ context.Context, level, logger string, data []byte) {
			r.listener.notify(func() {
				if r.listener.log != nil {
					r.listener.log(facts.LogMessage{Step: number, Function: p.Name(), Level: level, Logger: logger, Data: data})
				}
			})
		}
	}
	return steps.WithCallbacks(ctx, &callbacks)
}

// listener is the front end that wants progress or logs.
type listener struct {
	mu       sync.Mutex // guards ended, and calls of the front end
	progress func(facts.Progress)
	log      func(facts.LogMessage)
	ended    int // how many steps of the outermost chain have ended
}

func (n *listener) wanted() bool { return n.progress != nil || n.log != nil }

// notify calls the front end, one call at a time, unless the chain has ended. After a panic the front end is not called again; the chain
// continues.
func (n *listener) notify(call func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer func() {
		if recover() != nil {
			n.progress, n.log = nil, nil
		}
	}()
	call()
}

// stop ends the calls to the front end, since an abandoned function may still be running.
func (n *listener) stop() {
	n.notify(func() { n.progress, n.log = nil, nil })
}

// reportProgress reports the start, the progress or the end of a step, with the progress of the chain.
func (l *loop) reportProgress(p facts.Progress) {
	step, n := l.plan.Steps[p.Step], &l.run.listener
	p.ID, p.Function, p.Total = step.ID, step.Name(), len(l.steps)
	n.notify(func() {
		if p.Ended {
			n.ended++
		}
		if p.Done = n.ended; n.progress != nil {
			n.progress(p)
		}
	})
}
