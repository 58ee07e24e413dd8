package ladder

import (
	"context"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Wrap returns a clone of the registry whose calls are kept to the ladder. It belongs around the call cache and around
// recordings, whose answers count too. Calls of functions that are on no rung are not touched.
//
// Where the mode is Enforce, a call that skips too much fails with denied: the message names the rung to call first,
// Available those that may be called now, At the place of the subject in the arguments.
func (l *Ladder) Wrap(r *steps.Registry) *steps.Registry {
	if l == nil {
		return r
	}
	c := &climb{Ladder: l, rungs: make([]rung, len(l.written)), folded: fold(l.subject)}
	for _, entry := range r.All() {
		if i := l.Rung(entry.Spec()); i >= 0 {
			argument := entry.Argument(l.subject)
			if argument == "" && len(entry.Properties()) == 0 { // of any object as arguments
				argument = l.subject
			}
			c.rungs[i] = rung{entry.Spec().Name, argument}
		}
	}
	return r.Wrap(func(spec *steps.Spec, next steps.Call) steps.Call {
		i := l.Rung(spec)
		if i < 0 {
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

// rung is a function, and its name of the subject's argument. The name is "" where there is no such function, the argument
// where it declares none.
type rung struct{ name, argument string }

// call calls the function of a rung, if it may be called now.
func (c *climb) call(ctx context.Context, i int, args []byte, next steps.Call) ([]byte, error) {
	memory, argument := c.memory(ctx), c.rungs[i].argument
	var subjects []named
	if argument != "" {
		subjects = subjectsOf(args, argument)
	}
	if f := c.judge(ctx, memory, i, subjects); f != nil {
		if c.enforce {
			return nil, f
		}
		if warn := steps.AttendantOf(ctx).Warn; warn != nil {
			warn(f)
		}
	}
	result, err := next(ctx, args)
	if err != nil && fault.CodeOf(err) != fault.FunctionFailed {
		return nil, err
	}
	keys := make([]key, len(subjects))
	for n, subject := range subjects {
		keys[n] = subject.key
	}
	if err == nil && (i == 0 || argument == "") {
		keys = append(keys, found(result, c.folded, c.max)...)
	}
	memory.reach(c.Ladder, i, keys)
	return result, err
}

// judge gives what is wrong with a call at rung i for these subjects; nil: it may be made.
func (c *climb) judge(ctx context.Context, m *memory, i int, subjects []named) *fault.Error {
	if i < 2 {
		return nil // nobody can skip two rungs on the way there
	}
	lowest, where := i, named{}
	for _, subject := range subjects {
		if at := m.stands(c.Ladder, subject.key); at < lowest {
			lowest, where = at, subject
		}
	}
	skipped := c.between(ctx, lowest, i)
	if len(skipped) < 2 {
		return nil
	}
	return c.complain(i, where, skipped)
}

// between are the rungs above one and below another that the caller has.
func (c *climb) between(ctx context.Context, low, high int) (list []rung) {
	if high-low < 3 {
		return nil
	}
	view := steps.AttendantOf(ctx).Functions
	for _, r := range c.rungs[low+1 : high] {
		if r.name != "" && (view == nil || view.Has(r.name)) {
			list = append(list, r)
		}
	}
	return list
}

// complain says what to call first: one of the two rungs that may be called now, and of these the first that takes the
// subject, as the caller knows it already.
func (c *climb) complain(i int, subject named, skipped []rung) *fault.Error {
	first, how := skipped[0].name, "which may find it"
	for _, r := range skipped[:2] {
		if r.argument != "" {
			first, how = r.name, "with it"
			break
		}
	}
	self := c.rungs[i].name
	f := fault.New(fault.BadRequest, "%s skips %d cheaper functions for this %s: %s first may be enough", self, len(skipped), c.subject, first)
	if c.enforce {
		f = fault.New(fault.Denied, "%s skips %d cheaper functions for this %s: call %s first, %s", self, len(skipped), c.subject, first, how)
	}
	f.At = subject.at
	f.Available = []string{skipped[0].name, skipped[1].name}
	return f
}
