package replay

import (
	"context"
	"slices"
	"sync"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/steps"
)

// Registry returns a registry that answers only from the recording: nothing of base is ever called. The functions of base keep their specs,
// and arguments are checked against their schemas. Functions that only the recording knows are added; they accept any arguments and count
// as writing unless a line's effect says otherwise. A recorded name that differs from a name of base only in case and separators means that
// function; a name that base hides (steps.Registry.View) stays hidden. To hide functions that only the recording knows, use a view of the
// returned registry. Recorded results are bounded as in base. Calls need a context from Cursor. It fails like steps.Registry.With for an
// invalid recorded name.
func (c *Cassette) Registry(base *steps.Registry) (*steps.Registry, error) {
	known := map[string][]*recordedFunction{} // the recorded functions by the exact name of base
	byFold := map[string][]string{}
	for _, entry := range base.All() {
		name := entry.Spec().Name
		known[name] = nil
		byFold[steps.FoldName(name)] = append(byFold[steps.FoldName(name)], name)
	}
	unknown := map[string][]*recordedFunction{} // the recorded functions by folded name
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
			if unknown[folded] == nil {
				order = append(order, folded)
			}
			unknown[folded] = append(unknown[folded], fn)
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
		fn, err := c.unknownFunction(unknown[folded])
		if err != nil {
			return nil, err
		}
		if c.Unknown != nil && !slices.ContainsFunc(unknown[folded], func(fn *recordedFunction) bool { return fn.line != nil }) {
			fn = c.Unknown(fn)
		}
		added = append(added, fn)
	}
	return replayed.With(added...)
}

// unknownFunction returns a function that only the recording knows, under the first of its spellings.
func (c *Cassette) unknownFunction(variants []*recordedFunction) (steps.Function, error) {
	name := variants[0].name
	var all recordedFunction
	for _, fn := range variants {
		if fn.declared {
			all.declare(fn.effect)
		}
	}
	spec := steps.Spec{Name: name, Effect: all.effect, EffectDeclared: all.declared,
		Description: "Known from the recording only; takes any arguments."}
	for _, fn := range variants {
		if fn.line != nil {
			spec = fn.line.spec()
			spec.Description = "Known from the recording only."
			if fn.line.Redacted {
				spec.Redact = secret.Redaction(spec.Input)
			}
		}
	}
	answers, err := c.newAnswers(name, variants, secret.Redaction(spec.Input))
	return steps.Function{Spec: spec, Call: c.call(answers)}, err
}

type cursorKey struct{ cassette *Cassette }

// cursor is the progress of one run of a chain through a recording: how often each call was answered.
type cursor struct {
	chain    string
	mu       sync.Mutex
	answered map[answeredKey]position
	misses   int
}

// maxSuggesting bounds the unrecorded calls of one run for which suggestions are searched.
const maxSuggesting = 20

// countMiss counts an unrecorded call and reports whether it is among the first maxSuggesting ones.
func (c *cursor) countMiss() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.misses++
	return c.misses <= maxSuggesting
}

type answeredKey struct {
	answers *answers
	digest  digest
}

// Cursor starts a run of the chain with this name, "" for none: calls with the returned context get the recorded answers, starting with the
// first. Lines of other chains are not seen. Any number of runs may be active.
func (c *Cassette) Cursor(ctx context.Context, chain string) context.Context {
	return context.WithValue(ctx, cursorKey{c}, &cursor{chain: chain, answered: map[answeredKey]position{}})
}

// call returns the Call of a function, which answers from the recording or fails with not_recorded.
func (c *Cassette) call(a *answers) steps.Call {
	return func(ctx context.Context, args []byte) ([]byte, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		// If all runs shared a cursor, one run would get the answers of another.
		run, ok := ctx.Value(cursorKey{c}).(*cursor)
		if !ok {
			return nil, fault.New(fault.Internal, "a replay needs a context made by Cassette.Cursor")
		}
		r, err := c.find(a, args, run.chain)
		if err != nil {
			return nil, err
		}
		if len(r.chainCalls)+len(r.sharedCalls) == 0 {
			return nil, a.notRecorded(r.shown, run.chain, c.name, run.countMiss())
		}
		key := answeredKey{a, r.digest}
		run.mu.Lock()
		position := run.answered[key]
		answer := position.next(r.chainCalls, r.sharedCalls)
		run.answered[key] = position
		run.mu.Unlock()
		return answer.answer(ctx, r.hidden)
	}
}

// answer returns the call's answer with its secrets restored.
func (c *call) answer(ctx context.Context, hidden []string) ([]byte, error) {
	result, failed := c.result, c.err
	if failed != nil {
		f := *failed
		if len(hidden) > 0 {
			f.Message, f.Body = c.seal.RestoreText(f.Message, hidden), c.seal.Restore(f.Body, hidden)
		}
		return nil, &f
	}
	if report := steps.CallbacksOf(ctx).Status; report != nil && c.status != 0 {
		report(c.status)
	}
	if len(hidden) > 0 {
		result = c.seal.Restore(result, hidden)
	}
	return result, nil
}
