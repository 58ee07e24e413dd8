package refs

import (
	"context"
	"errors"
	"reflect"
	"time"
	"unsafe"

	"github.com/expr-lang/expr/vm"
	"github.com/expr-lang/expr/vm/runtime"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// Bounds of one evaluation.
const (
	maxIterations = 1_000_000
	maxMemory     = 128 << 20 // bytes in memory, of new values and of results read
	maxOutput     = 64 << 20  // bytes of JSON that an evaluation returns
	freeMemory    = 1 << 20   // bytes that an evaluation may use beyond those that it has reserved in the context's memory
	maxWork       = 200 << 20 // bytes and elements that functions read
	memoryBudget  = 1_000_000 // expr-lang's own limit: elements of new collections
	maxWall       = 10 * time.Second
	maxWallAlone  = time.Second // the time limit if the context has no deadline
	maxDepth      = 10_000      // levels of nested values

	// An evaluation that reaches one of these numbers is heavy, and needs a slot to go on.
	heavyIterations = 1 << 13
	heavyWork       = 256 << 10 // bytes and elements
)

// errTooManyElements has the text of expr-lang's own error, so that plainMessage recognizes both.
var errTooManyElements = errors.New("memory budget exceeded")

// evaluation is one run of an expression: what it has read, and how much it has used.
type evaluation struct {
	ctx        context.Context
	expression *Expression
	scope      *Scope
	deadline   time.Time

	values  []any               // the values of lookups, by index
	fetched []bool              // which of values are set
	decoded map[identity]any    // decoded objects and arrays, by their text
	origins map[identity]string // the text of decoded objects and arrays, by value
	weights map[identity]int    // the weights of values that were weighed
	uniform bool                // appendValue writes equal values as equal text

	iterations, memory, work, checkedWork int // what was used so far; checkedWork is the value of work when chargeWork last acquired a slot
	reserved                              int // bytes held of the context's memory

	uncheckedBytes int // bytes read by lookups since the deadline was checked
	slot           admit.Slot
}

// handle hides the evaluation from expr-lang, which follows pointers.
type handle struct{ *evaluation }

// identity identifies an object, array or text by its data. The pointer keeps the data alive, so that no other value can
// reuse its address.
type identity struct {
	data   unsafe.Pointer
	length int
}

func newEvaluation(ctx context.Context, x *Expression, sc *Scope) *evaluation {
	n := len(x.lookups)
	e := &evaluation{ctx: ctx, expression: x, scope: sc, values: make([]any, n), fetched: make([]bool, n)}
	now := time.Now()
	e.deadline = now.Add(maxWallAlone)
	if d, ok := ctx.Deadline(); ok {
		e.deadline = now.Add(min(d.Sub(now), maxWall))
	}
	return e
}

// release releases what the evaluation holds.
func (e *evaluation) release() {
	_ = admit.Hold(e.ctx, -e.reserved) // releasing never fails
	e.slot.Release()
}

// acquireSlot acquires a slot if the evaluation has none, and checks the deadline. The wait does not count as time of the
// expression.
func (e *evaluation) acquireSlot() error {
	start := time.Now()
	_ = e.slot.Acquire(e.ctx) // checkDeadline reports the context's error
	e.deadline = e.deadline.Add(time.Since(start))
	return e.checkDeadline()
}

func (e *evaluation) run() (any, error) {
	check := e.checkDeadline
	if admit.NeedsSlot(e.ctx) {
		check = e.acquireSlot
	}
	if err := check(); err != nil {
		return nil, err
	}
	machine := vm.VM{MemoryBudget: memoryBudget}
	return machine.Run(e.expression.code, map[string]any{evaluationName: handle{e}})
}

// countIteration counts and charges an iteration of a predicate. It fails past maxIterations, or if the time is over.
func (e *evaluation) countIteration() error {
	e.iterations++
	if err := e.charge(elementBytes); err != nil {
		return err
	}
	if e.iterations > maxIterations {
		return fault.New(fault.BadExpression, "The expression makes more than %d iterations. Filter earlier, or split it over several steps.",
			maxIterations)
	}
	if e.iterations%heavyIterations == 0 {
		return e.acquireSlot()
	}
	if e.iterations%64 == 0 {
		return e.checkDeadline()
	}
	return nil
}

// checkDeadline fails if the evaluation's time is over.
func (e *evaluation) checkDeadline() error {
	switch err := e.ctx.Err(); {
	case errors.Is(err, context.DeadlineExceeded):
		return fault.New(fault.Timeout, "The time for the expression is over.")
	case err != nil:
		return fault.New(fault.Cancelled, "The expression was cancelled.")
	case time.Now().After(e.deadline):
		if d, ok := e.ctx.Deadline(); ok && !time.Now().Before(d) { // the context is about to end
			return fault.New(fault.Timeout, "The time for the expression is over.")
		}
		return fault.New(fault.BadExpression, "The expression takes too long. Filter earlier, or split it over several steps.")
	}
	return nil
}

// chargeWork counts bytes or elements that a function reads.
func (e *evaluation) chargeWork(n int) error {
	e.work += n
	if n < 0 || e.work > maxWork {
		return fault.New(fault.BadExpression, "The expression works through too much data. Filter earlier, or split it over several steps.")
	}
	if e.work-e.checkedWork > heavyWork {
		e.checkedWork = e.work
		return e.acquireSlot()
	}
	return nil
}

// fetch returns a lookup's decoded value.
func (e *evaluation) fetch(l *lookup) (any, error) {
	if e.fetched[l.index] {
		return e.values[l.index], nil
	}
	raw, err := e.rawValue(l)
	if err != nil {
		return nil, err
	}
	value, err := e.decode(raw)
	if err == nil {
		e.values[l.index], e.fetched[l.index] = value, true
	}
	return value, err
}

// rawValue walks a lookup's path in the raw value of its root; a missing key is null.
func (e *evaluation) rawValue(l *lookup) (string, error) {
	doc, err := e.root(l)
	if err != nil {
		return "", err
	}
	if err := e.countBytes(len(doc)); err != nil {
		return "", err
	}
	for i := range l.segments {
		s := &l.segments[i]
		next, kind := child(doc, s, l.paths[i], i+1 == len(l.segments) || l.segments[i+1].needsExact())
		switch {
		case kind == present:
			doc = next
		case s.Optional && (kind == isNull || kind == isAbsent && doc[0] == '['):
			return "null", nil
		case kind == isAbsent && doc[0] == '{' && s.Kind == Quoted:
			doc = "null"
		default:
			before := []byte(l.name)
			for _, s := range l.segments[:i] {
				before = s.appendMember(before)
			}
			actual := kindOf(doc)
			if kind == isAbsent && doc[0] == '[' && s.Kind == At {
				actual = "an array without that element"
			}
			remedy := "Write ?. where null is expected."
			if kind != isNull && (s.Key == "length" || s.Key == "size") {
				remedy = "Write len(…)."
			}
			f := fault.New(fault.BadExpression, "%s is %s, so %s cannot be taken of it. %s",
				clip(string(before)), actual, clip(string(Segment{Key: s.Key, Index: s.Index, Kind: s.Kind}.appendMember(nil))), remedy)
			e.addAvailable(f, l, i)
			return "", f
		}
	}
	return doc, nil
}

// addAvailable adds to the fault of a walk that failed at segment i the keys that exist there.
func (e *evaluation) addAvailable(f *fault.Error, l *lookup, i int) {
	doc, err := e.root(l)
	if err != nil {
		return
	}
	for k := range i {
		next, kind := child(doc, &l.segments[k], l.paths[k], true)
		if kind == present {
			doc = next
			continue
		}
		if kind == isAbsent && doc[0] == '{' {
			var all []string
			f.Available, all = keys(doc)
			f.Nearest = fault.Nearest(l.segments[k].Key, all, 3)
		}
		return
	}
}

// appendMember appends a segment as expressions write it.
func (s Segment) appendMember(b []byte) []byte {
	p := referenceParser{text: s.Key, plain: true}
	if name, err := p.bareName(); err == nil && name == s.Key {
		s.Kind = Name
	}
	return s.append(b)
}

// countBytes counts the bytes that a lookup searches.
func (e *evaluation) countBytes(n int) error {
	if e.uncheckedBytes += n; e.uncheckedBytes < heavyWalk {
		return nil
	}
	e.uncheckedBytes = 0
	return e.acquireSlot()
}

// root returns the raw value of a lookup's root.
func (e *evaluation) root(l *lookup) (string, error) {
	s := e.expression.sources[l.index]
	if s.raw != "" {
		return s.raw, nil
	}
	raw, err := e.scope.textRoot(s.root, s.number)
	switch {
	case err != nil:
		return "", err
	case len(raw) > 0:
		return rawjson.View(raw), nil
	case e.scope.Lenient:
		return "null", nil
	}
	return "", e.scope.noResult(s.number)
}

// status returns the status of a lookup's step; "" before it has ended.
func (e *evaluation) status(l *lookup) any {
	if n := e.expression.sources[l.index].number; n < len(e.scope.Steps) {
		return e.scope.Steps[n].Status
	}
	return ""
}

// rangeValue returns first..last. It counts the elements first; expr-lang would allocate them before counting.
func (e *evaluation) rangeValue(first, last any) (any, error) {
	from, err := rangeEnd(first)
	if err != nil {
		return nil, err
	}
	to, err := rangeEnd(last)
	if err != nil {
		return nil, err
	}
	if to < from {
		return []any{}, nil
	}
	n := uint(to) - uint(from)
	if n >= memoryBudget {
		return nil, errTooManyElements
	}
	if err := e.chargeValue(int(n+1) * int(unsafe.Sizeof(from))); err != nil {
		return nil, err
	}
	return runtime.MakeRange(from, to), nil
}

func rangeEnd(v any) (int, error) {
	switch n := v.(type) {
	case int:
		return n, nil
	case float64:
		if i := int(n); float64(i) == n {
			return i, nil
		}
	}
	return 0, fault.New(fault.BadExpression, "%s", rangeEndMessage(v))
}

// rangeEndMessage returns the message for a value that cannot be the end of a range.
func rangeEndMessage(v any) string {
	return "A range goes from an integer to an integer, as in 1..10; this is " + typeName(v) + "."
}

func (e *evaluation) equal(a, b any) (any, error) {
	if err := e.chargeWalk(a, b); err != nil {
		return nil, err
	}
	return equal(a, b)
}

func (e *evaluation) in(needle, collection any) (any, error) {
	if v := reflect.ValueOf(collection); v.Kind() == reflect.Slice || v.Kind() == reflect.Array {
		if err := e.chargeWalk(needle, collection); err != nil {
			return nil, err
		}
	}
	if list, ok := collection.([]any); ok {
		return containsEqual(list, needle)
	}
	return runtime.In(needle, collection), nil
}
