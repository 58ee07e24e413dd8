package chain

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// await takes the functions as they are now. While sources are still starting it waits for names that are not there yet:
// what is found by its whole name, in any case and with any separators, is what is meant; all else may become ambiguous.
func (s *exchange) await(ctx context.Context, r *request) {
	if s.provider.Starting() == nil {
		s.view = s.provider.Registry()
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.patience(r))
	defer cancel()
	s.view = steps.Await(ctx, s.provider, func(now *steps.Registry) bool { return r == nil || s.allNamed(now, r.Steps) })
}

// patience is how long a request may wait for functions: as long as it may run.
func (s *exchange) patience(r *request) time.Duration {
	patience := s.maxDuration
	if r != nil && r.Budget != nil && r.Budget.MaxDurationMs != nil {
		patience = min(patience, time.Duration(*r.Budget.MaxDurationMs)*time.Millisecond)
	}
	return patience
}

// allNamed reports whether the names of all steps are there, or cannot come any more.
func (s *exchange) allNamed(functions *steps.Registry, list []step) bool {
	for i := range list {
		if inline := list[i].Chain; inline != nil && !s.allNamed(functions, inline.Steps) {
			return false
		}
		if name := list[i].Fn; name != "" && !functions.HasName(name) && steps.Pending(s.provider, name) {
			return false
		}
	}
	return true
}

// keepFor keeps a value for the caller (Keep of steps.Callbacks).
func (r *run) keepFor(ctx context.Context, value []byte) (token string, err error) {
	token, _, err = r.results.Keep(ctx, r.owner, value)
	return token, err
}

// calling gives the functions of a step what they may use beside what all calls of the run have: they warn with the step's place,
// and those of an outermost step tell how far they are, and the HTTP status of a write that may be answered in its lean form.
func (l *loop) calling(ctx context.Context, number int) context.Context {
	r, p := l.run, l.plan.steps[number]
	warns := p.rungs.any && p.inline == nil
	lean := l.plan == r.plan && number == len(l.steps)-1 && r.plan.answersWrite()
	if !warns && !lean && !l.reports {
		return ctx
	}
	own := *steps.CallbacksOf(ctx)
	if warns {
		own.Warn = func(f *fault.Error) { r.noted.add(f.Under(p.at + "/args")) }
	}
	if lean {
		own.Status = func(code int) { r.httpStatus.Store(int32(code)) }
	}
	if l.reports {
		own.Progress = func(_ context.Context, done, total float64, message string) {
			l.report(Progress{Step: number, Part: done, Whole: total, Message: message})
		}
		own.Log = func(_ context.Context, level, logger string, data []byte) {
			r.tell(func() {
				if r.log != nil {
					r.log(LogMessage{Step: number, Function: p.name(), Level: level, Logger: logger, Data: data})
				}
			})
		}
	}
	return steps.WithCallbacks(ctx, &own)
}

// tell calls the front end, unless the chain has ended: one call at a time. A front end that panics is told nothing more; it is
// not worth a chain.
func (r *run) tell(what func()) {
	r.telling.Lock()
	defer r.telling.Unlock()
	defer func() {
		if recover() != nil {
			r.progress, r.log = nil, nil
		}
	}()
	what()
}

// silence ends what is told: a function that was abandoned may still run.
func (r *run) silence() {
	r.tell(func() { r.progress, r.log = nil, nil })
}

// report tells of a step that it starts, how far it is or that it has ended, and with it how far the chain is.
func (l *loop) report(p Progress) {
	step := l.plan.steps[p.Step]
	p.ID, p.Function, p.Total = step.id, step.name(), len(l.steps)
	l.tell(func() {
		if p.Ended {
			l.ended++
		}
		if p.Done = l.ended; l.progress != nil {
			l.progress(p)
		}
	})
}

// away says that a chain has to wait for sources, of which each fault tells one; nil: something else is wrong with it too.
func away(list []*fault.Error) *fault.Error {
	var told []string
	for _, f := range list {
		var source *steps.Away
		if !errors.As(f.Err, &source) {
			return nil
		}
		if !slices.Contains(told, source.Message) {
			told = append(told, source.Message)
		}
	}
	return fault.New(fault.Unavailable, "nothing was run: %s; send the same chain again then", strings.Join(told, ", "))
}

// absent is the fault for a name that is not found, which may be because its source is not there.
func (s *exchange) absent(name string, err error) *fault.Error {
	if down := steps.Down(s.provider, name); down != nil {
		return down
	}
	f, _ := fault.As(err)
	if absent := steps.Absent(s.provider); len(absent) > 0 && len(absent) <= 10 && !steps.Qualified(s.provider, name) {
		f = f.Under("") // a copy
		f.Message += "; not looked for in " + strings.Join(absent, ", ") + ", which cannot be reached"
	}
	return f
}
