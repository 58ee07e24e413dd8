package ladder

import (
	"context"
	"slices"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Wrap returns a clone of the registry whose calls are kept to the ladder. It belongs around the call cache and around
// recordings, whose answers count too. Calls of functions that are on no rung are not touched. The functions of the clone know
// their rungs (Entry.Rung), from 0, the cheapest.
//
// In Enforce mode, a call that skips too much fails with denied: the message names the rung to call first, Available those
// that may be called now, At the place of the subject in the arguments. A rung that names no function counts as skipped,
// and a call that needs it first fails with unavailable. In Warn mode such calls are made.
func (l *Ladder) Wrap(r *steps.Registry) *steps.Registry {
	if l == nil {
		return r
	}
	c := &climb{Ladder: l, rungs: make([]rung, len(l.written)), folded: fold(l.subject)}
	places := map[string]int{}
	entries, _ := l.resolve(r)
	for i, entry := range entries {
		if entry == nil {
			continue
		}
		argument := entry.Argument(l.subject)
		if argument == "" && len(entry.Properties()) == 0 { // of any object as arguments
			argument = l.subject
		}
		c.rungs[i] = rung{entry.Spec().Name, argument, entry.Spec().Effect != steps.Read}
		places[entry.Spec().Name] = i
	}
	return r.Rank(places).Wrap(func(spec *steps.Spec, next steps.Call) steps.Call {
		i, ok := places[spec.Name]
		if !ok {
			return next
		}
		return func(ctx context.Context, args []byte) ([]byte, error) { return c.call(ctx, i, args, next) }
	})
}

// climb is a ladder over the functions of one registry.
type climb struct {
	*Ladder
	rungs  []rung
	folded string // the subject's argument
}

// rung is a function, and its name of the subject's argument. The name is "" if the rung names no function, the argument
// if the function declares none.
type rung struct {
	name, argument string
	writes         bool
}

// call calls the function of a rung, if it may be called now.
func (c *climb) call(ctx context.Context, i int, args []byte, next steps.Call) ([]byte, error) {
	memory, argument := c.memory(ctx), c.rungs[i].argument
	var subjects []named
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
		keys = append(keys, found(result, c.folded, c.max)...)
	}
	memory.reach(c.Ladder, i, keys)
	return result, err
}

// warn tells of a call that is made nevertheless.
func (c *climb) warn(ctx context.Context, i int, f *fault.Error) {
	if warn := steps.CallbacksOf(ctx).Warn; warn != nil {
		warn(f)
	}
	if c.log != nil {
		c.log.WarnContext(ctx, "a call skips cheaper functions", "function", c.rungs[i].name, "first", f.Available)
	}
}

// judge gives what is wrong with a call at rung i for these subjects, whose keys are given too; nil: it may be made.
func (c *climb) judge(ctx context.Context, m *memory, i int, subjects []named, keys []key) *fault.Error {
	if len(subjects) == 0 || len(c.between(ctx, foot, i)) < 2 {
		return nil // nobody can skip two rungs on the way there
	}
	stands := m.stands(c.Ladder, keys)
	lowest, where := i, named{}
	for n, subject := range subjects {
		if at := stands[n]; at < lowest {
			lowest, where = at, subject
		}
	}
	skipped := c.between(ctx, lowest, i)
	if len(skipped) < 2 {
		return nil
	}
	// One of the first two may be called now.
	callable := slices.DeleteFunc(slices.Clone(skipped[:2]), func(r rung) bool { return r.name == "" })
	if len(callable) == 0 {
		return fault.New(fault.Unavailable, "%s is not called, as cheaper functions that it skips are not known now: try again in a few seconds", c.rungs[i].name)
	}
	return c.complain(ctx, i, where, callable, len(skipped))
}

// between are the rungs above one and below another that the caller has, and those that name no function if that closes the
// ladder.
func (c *climb) between(ctx context.Context, low, high int) (list []rung) {
	if high-low < 3 {
		return nil
	}
	view := steps.CallbacksOf(ctx).Functions
	for _, r := range c.rungs[low+1 : high] {
		if r.name == "" && c.closed || r.name != "" && (view == nil || view.Has(r.name)) {
			list = append(list, r)
		}
	}
	return list
}

// complain says what to call first: of the rungs that may be called now the first that takes the subject, as the caller
// knows it already.
func (c *climb) complain(ctx context.Context, i int, subject named, callable []rung, skipped int) *fault.Error {
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
		f = fault.New(fault.Denied, "%s skips %d cheaper functions for this %s: call %s first, %s%s", self, skipped, c.subject, first, how, together(ctx))
	}
	f.At = subject.at
	for _, r := range callable {
		f.Available = append(f.Available, r.name)
	}
	return f
}

// together says how a call counts for a caller that may have no session.
func together(ctx context.Context) string {
	if steps.SessionOf(ctx) == nil {
		return ", both in one chain"
	}
	return " (both in one chain, where no session is kept)"
}
