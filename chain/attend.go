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

// allNamed tells whether the names of all steps are there, or cannot come any more.
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

// attend gives functions what they may use beside their arguments: the store of large results, and the count of what the
// call cache answered.
func (r *run) attend(ctx context.Context) context.Context {
	r.callbacks.Cached = func() { r.cached.Add(1) }
	if r.results != nil {
		r.callbacks.Keep = r.keepFor
	}
	r.callbacks.Functions, r.callbacks.Caller = r.view, r.owner
	if r.o.Rung != nil && steps.SessionOf(ctx) == nil {
		ctx = steps.WithSession(ctx, &steps.Session{}) // of the chain alone
	}
	return steps.WithCallbacks(ctx, &r.callbacks)
}

func (r *run) keepFor(ctx context.Context, value []byte) (token string, err error) {
	token, _, err = r.results.Keep(ctx, r.owner, value)
	return token, err
}

// attended has what the functions of one of the outermost steps tell while they run passed on, and takes note of the HTTP
// status of a write that may be answered in its lean form.
func (l *loop) attended(ctx context.Context, number int) context.Context {
	r := l.run
	lean := l.plan == r.plan && number == len(l.steps)-1 && r.plan.answersWrite()
	if l.plan != r.plan || !r.listens && !lean {
		return ctx
	}
	a, name := r.callbacks, l.plan.steps[number].name()
	if lean {
		a.Status = func(code int) { r.httpStatus.Store(int32(code)) }
	}
	if !r.listens {
		return steps.WithCallbacks(ctx, &a)
	}
	a.Progress = func(_ context.Context, done, total float64, message string) {
		r.tell(func() {
			if r.progress != nil {
				r.progress(Progress{Done: r.ended, Total: len(r.plan.steps), Step: number, ID: l.plan.steps[number].id, Function: name, Part: done, Whole: total, Message: message})
			}
		})
	}
	a.Log = func(_ context.Context, level, logger string, data []byte) {
		r.tell(func() {
			if r.log != nil {
				r.log(LogMessage{Step: number, Function: name, Level: level, Logger: logger, Data: data})
			}
		})
	}
	return steps.WithCallbacks(ctx, &a)
}

// tell calls the door, unless the chain has ended: one call at a time. A door that panics is told nothing more; it is
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
	if r.listens {
		r.tell(func() { r.progress, r.log = nil, nil })
	}
}

// report tells that a step of the outermost chain starts or has ended.
func (l *loop) report(i int, ended bool) {
	r := l.run
	if l.plan != r.plan || !r.listens {
		return
	}
	r.tell(func() {
		if ended {
			r.ended++
		}
		if r.progress != nil {
			r.progress(Progress{Done: r.ended, Total: len(l.steps), Step: i, ID: l.plan.steps[i].id, Function: l.plan.steps[i].name(), Ended: ended})
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
	if down := s.provider.Down(name); down != nil {
		return down
	}
	f, _ := fault.As(err)
	if absent := s.provider.Absent(); len(absent) > 0 && len(absent) <= 10 && !steps.Qualified(s.provider, name) {
		f = f.Under("") // a copy
		f.Message += "; not looked for in " + strings.Join(absent, ", ") + ", which cannot be reached"
	}
	return f
}
