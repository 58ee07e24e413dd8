package ladder

import (
	"context"
	"slices"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Wrap returns a clone of the registry that enforces the ladder. It must wrap the call cache and recordings, whose answers count too.
// Functions on no rung are unaffected. The functions of the clone have their rungs (Entry.Rung), from 0, the cheapest.
//
// In Enforce mode, a call that skips more than one rung fails with denied. The message names the function to call first, Available lists
// the functions that may be called now, and At is the position of the subject in the arguments. A rung that names no function counts as
// skipped; if the first two skipped rungs name none, the call fails with unavailable. In Warn mode, calls that skip rungs are made.
func (l *Ladder) Wrap(r *steps.Registry) *steps.Registry {
	if l == nil {
		return r
	}
	c := &boundLadder{Ladder: l, rungs: make([]rung, len(l.rungNames)), folded: fold(l.subject)}
	indexes := map[string]int{}
	entries, _ := l.resolve(r)
	for i, entry := range entries {
		if entry == nil {
			continue
		}
		argument := entry.Argument(l.subject)
		if argument == "" && len(entry.Properties()) == 0 { // it accepts any object
			argument = l.subject
		}
		c.rungs[i] = rung{entry.Spec().Name, argument, entry.Spec().Effect != steps.Read}
		indexes[entry.Spec().Name] = i
	}
	return r.Rank(indexes).Wrap(func(spec *steps.Spec, next steps.Call) steps.Call {
		i, ok := indexes[spec.Name]
		if !ok {
			return next
		}
		return func(ctx context.Context, args []byte) ([]byte, error) { return c.call(ctx, i, args, next) }
	})
}

// boundLadder is a ladder over the functions of one registry.
type boundLadder struct {
	*Ladder
	rungs  []rung
	folded string // the subject's argument, folded
}

// rung is a function and its name for the subject's argument. name is "" if the rung names no function. argument is "" if the function does
// not declare it.
type rung struct {
	name, argument string
	writes         bool
}

// call calls the function of rung i. In Enforce mode it refuses a call that skips more than one rung.
func (c *boundLadder) call(ctx context.Context, i int, args []byte, next steps.Call) ([]byte, error) {
	memory, argument := c.memory(ctx), c.rungs[i].argument
	var subjects []subject
	if argument != "" {
		subjects = subjectsOf(args, argument)
	}
	keys := make([]key, len(subjects))
	for n, subject := range subjects {
		keys[n] = subject.key
	}
	if f := c.judge(ctx, memory, i, subjects, keys); f != nil {
		if c.enforce {
			if c.rungs[i].writes {
				f.Outcome = fault.NotSent
			}
			return nil, f
		}
		c.warn(ctx, i, f)
	}
	result, err := next(ctx, args)
	if err != nil && fault.CodeOf(err) != fault.FunctionFailed {
		return nil, err
	}
	if err == nil && (i == 0 || argument == "") {
		keys = append(keys, subjectsIn(result, c.folded, c.max)...)
	}
	memory.record(c.Ladder, i, keys)
	return result, err
}

// warn warns of a call that is made nevertheless.
func (c *boundLadder) warn(ctx context.Context, i int, f *fault.Error) {
	if warn := steps.CallbacksOf(ctx).Warn; warn != nil {
		warn(f)
	}
	if c.log != nil {
		c.log.WarnContext(ctx, "a call skips cheaper functions", "function", c.rungs[i].name, "first", f.Available)
	}
}

// judge returns the fault of a call at rung i for these subjects and their keys; nil: the call may be made.
func (c *boundLadder) judge(ctx context.Context, m *memory, i int, subjects []subject, keys []key) *fault.Error {
	if len(subjects) == 0 || len(c.between(ctx, belowFirst, i)) < 2 {
		return nil // there are no two rungs to skip
	}
	stands := m.rungsOf(c.Ladder, keys)
	lowest, where := i, subject{}
	for n, subject := range subjects {
		if at := stands[n]; at < lowest {
			lowest, where = at, subject
		}
	}
	skipped := c.between(ctx, lowest, i)
	if len(skipped) < 2 {
		return nil
	}
	// The first two may be called now, because a call may skip one rung.
	callable := slices.DeleteFunc(slices.Clone(skipped[:2]), func(r rung) bool { return r.name == "" })
	if len(callable) == 0 {
		return fault.New(fault.Unavailable,
			"%s is not called, as cheaper functions that it skips are not known now: try again in a few seconds", c.rungs[i].name)
	}
	return c.skipFault(ctx, i, where, callable, len(skipped))
}

// between returns the rungs above low and below high that the caller may use, and, if the ladder is strict, those that name no function. It
// returns nil if fewer than two rungs lie between low and high, because a call may skip one.
func (c *boundLadder) between(ctx context.Context, low, high int) (list []rung) {
	if high-low < 3 {
		return nil
	}
	view := steps.CallbacksOf(ctx).Functions
	for _, r := range c.rungs[low+1 : high] {
		if r.name == "" && c.strict || r.name != "" && (view == nil || view.Has(r.name)) {
			list = append(list, r)
		}
	}
	return list
}

// skipFault names the function to call first: the first callable rung that takes the subject, because the caller already knows the subject,
// else the first callable rung.
func (c *boundLadder) skipFault(ctx context.Context, i int, subject subject, callable []rung, skipped int) *fault.Error {
	first, how := callable[0].name, "which may find it"
	for _, r := range callable {
		if r.argument != "" {
			first, how = r.name, "with it"
			break
		}
	}
	self := c.rungs[i].name
	f := fault.New(fault.BadRequest, "%s skips %d cheaper functions for this %s: %s first may be enough", self, skipped, c.subject, first)
	if c.enforce {
		f = fault.New(fault.Denied, "%s skips %d cheaper functions for this %s: call %s first, %s%s", self, skipped, c.subject, first, how,
			sessionHint(ctx))
	}
	f.At = subject.at
	for _, r := range callable {
		f.Available = append(f.Available, r.name)
	}
	return f
}

// sessionHint says how a call counts for a caller that may have no session.
func sessionHint(ctx context.Context) string {
	if steps.SessionOf(ctx) == nil {
		return ", both in one chain"
	}
	return " (both in one chain, where no session is kept)"
}
