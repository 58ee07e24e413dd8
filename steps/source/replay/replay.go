package replay

import (
	"context"
	"slices"
	"sync"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/steps"
)

// Registry returns a registry that answers from the recording alone: nothing of base is ever called. The functions of
// base keep their specs, and arguments are still checked against their schemas. What only the recording knows is added
// with any arguments; it counts as writing unless a line's effect says otherwise. A recorded name that differs from one
// of base's only in case and separators means that one; one that base hides (steps.Registry.View) stays hidden. To hide
// functions that only the recording knows, make the view of the registry that is returned. Recorded results are bounded
// as those of base are. Calls need a context that Cursor made. Codes: those of steps.Registry.With for a recorded name
// that is unfit.
func (c *Cassette) Registry(base *steps.Registry) (*steps.Registry, error) {
	known := map[string][]*recorded{} // by exact name of base
	byFold := map[string][]string{}
	for _, entry := range base.All() {
		name := entry.Spec().Name
		known[name] = nil
		byFold[steps.FoldName(name)] = append(byFold[steps.FoldName(name)], name)
	}
	strangers := map[string][]*recorded{} // by folded name
	var order []string
	for _, fn := range c.functions {
		folded := steps.FoldName(fn.name)
		_, exact := known[fn.name]
		switch twins := byFold[folded]; {
		case exact:
			known[fn.name] = append(known[fn.name], fn)
		case len(twins) == 1:
			known[twins[0]] = append(known[twins[0]], fn)
		case base.Hides(fn.name):
		default:
			if strangers[folded] == nil {
				order = append(order, folded)
			}
			strangers[folded] = append(strangers[folded], fn)
		}
	}
	var err error
	replayed := base.Replace(func(spec *steps.Spec) steps.Call {
		answers, indexErr := c.newAnswers(spec.Name, known[spec.Name], redactionOf(spec))
		if indexErr != nil {
			err = indexErr
		}
		return c.call(answers)
	})
	if err != nil {
		return nil, err
	}
	var added []steps.Function
	for _, folded := range order {
		fn, err := c.stranger(strangers[folded])
		if err != nil {
			return nil, err
		}
		if c.Unknown != nil && !slices.ContainsFunc(strangers[folded], func(fn *recorded) bool { return fn.line != nil }) {
			fn = c.Unknown(fn)
		}
		added = append(added, fn)
	}
	return replayed.With(added...)
}

// stranger is a function of which nothing is known but the recording, under the first of its spellings.
func (c *Cassette) stranger(spellings []*recorded) (steps.Function, error) {
	name := spellings[0].name
	var all recorded
	for _, fn := range spellings {
		if fn.declared {
			all.declare(fn.effect)
		}
	}
	spec := steps.Spec{Name: name, Effect: all.effect, EffectDeclared: all.declared, Description: "Known from the recording only; takes any arguments."}
	for _, fn := range spellings {
		if fn.line != nil {
			spec = fn.line.spec()
			spec.Description = "Known from the recording only."
			if fn.line.Redacted {
				spec.Redact = secret.Redaction(spec.Input)
			}
		}
	}
	answers, err := c.newAnswers(name, spellings, secret.Redaction(spec.Input))
	return steps.Function{Spec: spec, Call: c.call(answers)}, err
}

type cursorKey struct{ cassette *Cassette }

// cursor is how far one run of one chain has come in a recording: how often each call was answered.
type cursor struct {
	chain    string
	mu       sync.Mutex
	answered map[answeredKey]position
	misses   int
}

// maxSuggesting bounds the calls of one run that were not recorded for which the nearest are looked for.
const maxSuggesting = 20

// missed counts a call that was not recorded, and reports whether it is among the first.
func (c *cursor) missed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.misses++
	return c.misses <= maxSuggesting
}

type answeredKey struct {
	answers *answers
	digest  digest
}

// Cursor starts one run of the chain of that name, "" for one without: calls with the context get the recorded answers
// from the first on. Lines that name another chain are not seen. Any number of runs may go on at once.
func (c *Cassette) Cursor(ctx context.Context, chain string) context.Context {
	return context.WithValue(ctx, cursorKey{c}, &cursor{chain: chain, answered: map[answeredKey]position{}})
}

// call answers one call: from the recording, or with not_recorded.
func (c *Cassette) call(a *answers) steps.Call {
	return func(ctx context.Context, args []byte) ([]byte, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		// A cursor that all runs shared would give one run's answers to another.
		run, ok := ctx.Value(cursorKey{c}).(*cursor)
		if !ok {
			return nil, fault.New(fault.Internal, "a replay needs a context made by Cassette.Cursor")
		}
		r, err := c.find(a, args, run.chain)
		if err != nil {
			return nil, err
		}
		if len(r.own)+len(r.shared) == 0 {
			return nil, a.notRecorded(r.shown, run.chain, c.name, run.missed())
		}
		key := answeredKey{a, r.digest}
		run.mu.Lock()
		position := run.answered[key]
		answer := position.next(r.own, r.shared)
		run.answered[key] = position
		run.mu.Unlock()
		return answer.give(ctx, r.hidden)
	}
}

// give answers a call whose secrets are known again.
func (c *call) give(ctx context.Context, hidden []string) ([]byte, error) {
	result, failed := c.result, c.err
	if failed != nil {
		f := *failed
		if len(hidden) > 0 {
			f.Message, f.Body = c.seal.RestoreText(f.Message, hidden), c.seal.Restore(f.Body, hidden)
		}
		return nil, &f
	}
	if tell := steps.CallbacksOf(ctx).Status; tell != nil && c.status != 0 {
		tell(c.status)
	}
	if len(hidden) > 0 {
		result = c.seal.Restore(result, hidden)
	}
	return result, nil
}
