package plan

import (
	"context"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// Bound says what a run of a plan takes if it succeeds. A run that fails makes no more calls and holds no more bytes than the high ends
// say. What declared output schemas say of results is taken for granted.
type Bound struct {
	Calls  Interval
	Bytes  Interval // of all results, as MaxBytes counts them
	Result Interval // bytes of the value of return
	Micros int64    // time, most likely, without that of expressions; Unknown where nothing is known of a call

	steps []stepBound // of the outermost chain
}

// Seen says what the calls of a function took so far.
type Seen struct {
	Bytes    int64 // of a result, most likely; Unknown if no call has succeeded
	P50, P90 time.Duration
}

// Bounder computes bounds.
type Bounder struct {
	Context        context.Context          // ends the evaluation of what depends on the input alone
	MaxElements    int64                    // of a forEach
	MaxConcurrency int                      // calls at once
	OnlyCalls      bool                     // schemas are not looked at: what is said of bytes means nothing
	Seen           func(*steps.Entry) *Seen // nil: nothing is known of earlier calls, as where it returns nil
}

// stepBound is the bound of a step.
type stepBound struct {
	calls, bytes, result Interval
	elements             Interval // of its forEach; only if it has one
	micros               int64
}

// Of returns the bound of a plan without faults.
func (b *Bounder) Of(p *Plan) *Bound { return b.level(p, p.Input) }

// level returns the bound of one level. input is $input; nil: it is not known.
func (b *Bounder) level(p *Plan, input []byte) *Bound {
	all := &Bound{steps: make([]stepBound, len(p.Steps))}
	ends := make([]int64, len(p.Steps)) // when each step ends, probably
	for i, s := range p.Steps {
		one := b.step(p, s, all.steps, input)
		all.steps[i] = one
		all.Calls, all.Bytes = all.Calls.plus(one.calls), all.Bytes.plus(one.bytes)
		begins := int64(0)
		for _, n := range s.After {
			begins = later(begins, ends[n])
		}
		ends[i] = sum(begins, one.micros)
		all.Micros = later(all.Micros, ends[i])
	}
	all.Result = b.returned(p, all.steps)
	return all
}

// later returns the later of two times.
func later(x, y int64) int64 {
	if x == Unknown || y == Unknown {
		return Unknown
	}
	return max(x, y)
}

var nullBytes = int64(len("null"))

// step returns the bound of a step. before has those of the steps before it.
func (b *Bounder) step(p *Plan, s *Step, before []stepBound, input []byte) stepBound {
	e := b.element(s, input)
	e.bytes = e.bytes.plus(e.result)
	if s.ForEach != nil {
		n := b.elements(p, s, before, input)
		e.elements, e.calls, e.bytes = n, n.times(e.calls), n.times(e.bytes)
		e.result = n.times(e.result.plus(exactly(1))).plus(exactly(1)) // with commas and brackets
		e.result.Low = max(e.result.Low, 2)
		e.result = e.result.or(e.result.Low, 2) // an empty array has no comma to leave out
		e.micros = b.likelyOfAll(s, n.Likely, e.micros)
	}
	if s.When != nil { // it probably runs
		e.calls.Low, e.bytes.Low, e.result = 0, 0, e.result.or(nullBytes, nullBytes)
	}
	if undoIsKept(s) {
		e.bytes.High = Unknown
	}
	return e
}

// undoIsKept reports whether the run may hold what an undo of the step's calls needs, which no schema tells.
func undoIsKept(s *Step) bool {
	if s.Fn == nil || s.Effect == steps.Read {
		return false
	}
	spec := s.Fn.Spec()
	return s.Undo != nil || spec.Undo != nil || spec.State || spec.Local
}

// likelyOfAll returns how long the elements of a forEach probably take together: as many at once as may run, the last of them a slow one.
func (b *Bounder) likelyOfAll(s *Step, n, one int64) int64 {
	if n == Unknown || one == Unknown {
		return Unknown
	}
	at := int64(max(min(s.Concurrency, b.MaxConcurrency), 1))
	rounds := (n + at - 1) / at
	if slow := b.seen(s); slow != nil && n >= slowOne && s.MaxRounds == 1 {
		return product(rounds-1, one) + max(slow.P90.Microseconds(), one)
	}
	return product(rounds, one)
}

// slowOne is how many calls have probably one among them that takes longer than nine of ten.
const slowOne = 7

func (b *Bounder) seen(s *Step) *Seen {
	if s.Fn == nil || b.Seen == nil {
		return nil
	}
	return b.Seen(s.Fn)
}

// element returns the bound of a step without forEach, or of one element. Its bytes are without those of the result.
func (b *Bounder) element(s *Step, input []byte) stepBound {
	e := b.call(s, input)
	rounds, attempts := Interval{1, 1, int64(s.MaxRounds)}, Interval{1, 1, int64(1 + s.MaxRetries)}
	if s.MaxRounds > 1 {
		rounds.Likely = Unknown
	}
	all := rounds.times(attempts)
	e.calls, e.bytes = e.calls.times(all), e.bytes.times(all)
	e.micros = product(e.micros, rounds.Likely)
	if s.Collect != nil {
		e.result = Interval{2, Unknown, Unknown}
	}
	if s.Selector != nil {
		e.result = b.selected(s, e.result)
	}
	if s.OrElse != nil {
		n := int64(len(s.OrElse))
		e.calls.Low, e.bytes.Low, e.result = 0, 0, e.result.or(n, n)
	}
	return e
}

// selected returns the bounds of what select takes of a result.
func (b *Bounder) selected(s *Step, result Interval) Interval {
	value := Interval{1, Unknown, Unknown}
	uses := s.Selector.Uses()
	if len(uses) != 1 || !uses[0].Whole || uses[0].Lenient || uses[0].Root != refs.RootResult {
		return value
	}
	path, flat := elementsOf(nil, uses[0].Path)
	if len(path) == 0 && !flat {
		return result
	}
	if s.Fn != nil && !flat && s.Collect == nil {
		value.Low, value.High = b.size(s.Fn, path)
	}
	if uses[0].Expression {
		value = value.or(nullBytes, nullBytes)
	}
	return value
}

// call returns the bound of one call, inline chain or expression.
func (b *Bounder) call(s *Step, input []byte) stepBound {
	switch {
	case s.Inline != nil:
		inner := b.level(s.Inline, b.innerInput(s, input))
		return stepBound{calls: inner.Calls, bytes: inner.Bytes, result: inner.Result, micros: inner.Micros}
	case s.Fn == nil:
		result := Interval{1, Unknown, Unknown}
		if s.Expr != nil && !b.OnlyCalls && b.constant(s.Expr.Uses(), s.Expr.String(), input) {
			if value, err := s.Expr.Eval(b.Context, &refs.Scope{Input: input}); err == nil {
				result = exactly(int64(len(value)))
			}
		}
		return stepBound{result: result}
	}
	low, high := b.size(s.Fn, nil)
	if s.Projection != nil {
		low = 1
	}
	result, micros := Interval{low, Unknown, high}, int64(Unknown)
	if seen := b.seen(s); seen != nil {
		result.Likely, micros = seen.Bytes, seen.P50.Microseconds()
	}
	if result.Likely == Unknown && low == high {
		result.Likely = low
	}
	return stepBound{calls: exactly(1), result: result.inside(), micros: micros}
}

// size returns between how many bytes a function's results have at a path, as far as its schema tells.
func (b *Bounder) size(fn *steps.Entry, path []schema.Element) (low, high int64) {
	if b.OnlyCalls {
		return 1, Unknown
	}
	return schema.Size(fn.Spec().Output, path)
}

// innerInput returns the $input of an inline chain if it does not depend on results; else nil.
func (b *Bounder) innerInput(s *Step, input []byte) []byte {
	args := s.Literal
	if s.Args != nil {
		if !b.constant(s.Args.Uses(), "", input) {
			return nil
		}
		resolved, err := s.Args.Resolve(b.Context, nil, &refs.Scope{Input: input})
		if err != nil {
			return nil
		}
		args = WithCommon(resolved, s.Common)
	}
	if s.Saved == nil {
		return args
	}
	sent, refused := s.Saved.Accept(b.Context, args)
	if refused != nil {
		return nil
	}
	return sent
}

// constant reports whether a text with these uses has the same value whenever it is evaluated.
func (b *Bounder) constant(uses []refs.Use, source string, input []byte) bool {
	for _, u := range uses {
		if u.Root != refs.RootInput || input == nil {
			return false
		}
	}
	return !strings.Contains(source, "now") && b.Context.Err() == nil
}

// returned returns the bounds of the value of return, or without one of the last step's result.
func (b *Bounder) returned(p *Plan, of []stepBound) Interval {
	if p.Returned == nil {
		return of[len(of)-1].result
	}
	size := exactly(int64(p.Returned.Written()))
	for _, u := range p.Returned.Uses() {
		value := b.referred(p, &u, of)
		if !u.Whole {
			value = Interval{0, value.Likely, product(2, value.High)} // quotes are escaped in a text
		}
		size = size.plus(value)
	}
	size.Low = max(size.Low, 1)
	return size.inside()
}

// referred returns the bounds of the value of a reference in return, where what has no result is null.
func (b *Bounder) referred(p *Plan, u *refs.Use, of []stepBound) Interval {
	value := Interval{1, Unknown, Unknown}
	if u.Root != refs.RootStep || u.Lenient {
		return value
	}
	path, flat := elementsOf(nil, u.Path)
	switch from := p.Steps[u.Step].origin; {
	case flat:
	case len(path) == 0:
		return of[u.Step].result
	default:
		if from = from.at(path); from.fn != nil && from.arrays == 0 {
			value.Low, value.High = b.size(from.fn, from.path)
			return value.or(nullBytes, nullBytes)
		}
	}
	return value
}
