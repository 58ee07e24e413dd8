package replay

import (
	"cmp"
	"context"
	"sync"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/steps"
)

// Registry returns a registry that answers only from the recording: nothing of base is ever called. The functions of base keep their
// schemas, which arguments are checked against. If a line describes one, it also gets the line's effect, defaults, aliases and the like,
// unless Configure sets others. Functions that only the recording knows are added; without a line that describes them, they accept any
// arguments and count as writing unless a line's effect says otherwise. A recorded name that differs from a name of base only in case and
// separators means that function; a name that base hides (steps.Registry.View) stays hidden. To hide functions that only the recording
// knows, use a view of the returned registry. Recorded results are bounded as in base. Calls need a context from Cursor. It fails like
// steps.Registry.With for an invalid recorded name.
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
	var added []steps.Function
	add := func(spec steps.Spec, variants []*recordedFunction) {
		spec.TakesMarks = true
		fn := steps.Function{Spec: spec}
		if c.Configure != nil {
			fn = c.Configure(fn)
		}
		var addErr error
		if fn.Call, addErr = c.answer(&fn.Spec, variants); addErr != nil {
			err = addErr
		}
		added = append(added, fn)
	}
	for _, entry := range base.All() {
		if variants := known[entry.Spec().Name]; lastLine(variants) != nil {
			spec := *entry.Spec()
			lastLine(variants).configure(&spec)
			add(spec, variants)
		}
	}
	for _, folded := range order {
		add(unknownSpec(unknown[folded]), unknown[folded])
	}
	undescribed := base.View(func(spec *steps.Spec) bool { return lastLine(known[spec.Name]) == nil })
	replayed := undescribed.Replace(func(spec *steps.Spec) steps.Call {
		call, answerErr := c.answer(spec, known[spec.Name])
		if answerErr != nil {
			err = answerErr
		}
		return call
	})
	if err != nil {
		return nil, err
	}
	return replayed.With(added...)
}

// lastLine returns the line that describes a function with these spellings; nil: there is none.
func lastLine(variants []*recordedFunction) (line *functionLine) {
	for _, fn := range variants {
		line = cmp.Or(fn.line, line)
	}
	return line
}

// unknownSpec returns a function that only the recording knows, under the first of its spellings.
func unknownSpec(variants []*recordedFunction) steps.Spec {
	if line := lastLine(variants); line != nil {
		spec := line.spec()
		spec.Name, spec.Description = variants[0].name, "Known from the recording only."
		if line.Redacted {
			spec.Redact = secret.Redaction(spec.Input)
		}
		return spec
	}
	var all recordedFunction
	for _, fn := range variants {
		if fn.declared {
			all.declare(fn.effect)
		}
	}
	return steps.Spec{Name: variants[0].name, Effect: all.effect, EffectDeclared: all.declared,
		Description: "Known from the recording only; takes any arguments."}
}

// answer returns the Call of a function that was recorded under these spellings.
func (c *Cassette) answer(spec *steps.Spec, variants []*recordedFunction) (steps.Call, error) {
	answers, err := c.newAnswers(spec, variants)
	return c.call(answers), err
}

type cursorKey struct{ cassette *Cassette }

// cursor is the progress of one run of a chain through a recording: how often each call was answered.
type cursor struct {
	chain    string
	mu       sync.Mutex
	answered map[answeredKey]position
	states   int // how often $state was read
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
		r, err := c.find(a, withoutKey(a.spec, steps.CallbacksOf(ctx).Blocks.Digests(args)), run.chain)
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
		result, err := answer.answer(ctx, r.hidden)
		if err != nil {
			return nil, err
		}
		return c.withBlocks(ctx, answer.restoredBlocks(r.hidden), result)
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
	callbacks := steps.CallbacksOf(ctx)
	if callbacks.Status != nil && c.status != 0 {
		callbacks.Status(c.status)
	}
	if callbacks.Cached != nil && c.cached {
		callbacks.Cached()
	}
	if len(hidden) > 0 {
		result = c.seal.Restore(result, hidden)
	}
	return result, nil
}
