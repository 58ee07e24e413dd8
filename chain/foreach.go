package chain

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
)

// forEach runs the step once for each element, in order of the elements as far as its concurrency allows, and gives the
// array of their results. It stops at the first failure unless onError is continue.
func (r *run) forEach(ctx context.Context, p *plannedStep, scope refs.Scope, s *stepRun) {
	items, size, f := r.items(ctx, p, &scope)
	if f != nil {
		s.fail(p, f)
		return
	}
	defer r.spared(size)
	s.count = len(items)
	e := &each{run: r, step: p, within: s.within, scope: scope, items: items, results: make([][]byte, len(items)), most: int64(p.concurrency)}
	e.first.Store(int64(len(items)))
	e.work(ctx)
	e.workers.Wait()
	s.calls, s.reused, s.defaulted, s.truncated = e.calls.Load(), e.reused.Load(), e.defaulted.Load(), e.truncated.Load()
	if s.pending = e.pending.Load(); s.pending {
		s.status = statusOK
		return
	}
	e.end(ctx, s)
}

// items resolves the array that forEach goes over; its bytes are held, size of them.
func (r *run) items(ctx context.Context, p *plannedStep, scope *refs.Scope) (items [][]byte, size int, f *fault.Error) {
	at := p.at + "/forEach"
	raw, err := p.forEach.Resolve(ctx, scope)
	if err != nil {
		return nil, 0, coded(err, at)
	}
	if f := r.hold(len(raw)); f != nil {
		return nil, 0, f.Under(at)
	}
	list := gjson.ParseBytes(raw)
	if !list.IsArray() {
		return nil, 0, fault.New(fault.BadArguments, "forEach needs an array, not %s%s", kindOf(list), arrayInstead(p.forEach.String(), list)).Under(at)
	}
	list.ForEach(func(_, item gjson.Result) bool {
		items = append(items, raw[item.Index:item.Index+len(item.Raw)])
		return len(items) <= r.o.MaxElements
	})
	if len(items) > r.o.MaxElements {
		return nil, 0, fault.New(fault.LimitExceeded, "forEach has more than %d elements (limits.maxElements): select fewer", r.o.MaxElements).Under(at)
	}
	return items, len(raw), nil
}

// arrayInstead tells how an array is had of a value that is none; text is what gave it.
func arrayInstead(text string, value gjson.Result) string {
	switch {
	case value.Type == gjson.String && strings.HasPrefix(strings.TrimSpace(value.Str), "[") && gjson.Valid(value.Str):
		return ": fromJSON(" + fault.ClipRunes(text, maxRemedy) + ") is the array"
	case value.Type == gjson.String:
		return splitInstead(text)
	case value.IsObject():
		return membersInstead(text, func(yield func(string) bool) {
			value.ForEach(func(name, member gjson.Result) bool { return !member.IsArray() || yield(name.String()) })
		})
	}
	return ""
}

// Bounds of what a remedy repeats: characters of a text, and members.
const maxRemedy, maxRemedies = 80, 5

func splitInstead(text string) string {
	return ": split it, as in split(" + fault.ClipRunes(text, maxRemedy) + `, "\n")`
}

// membersInstead names the members of an object that are arrays.
func membersInstead(text string, arrays iter.Seq[string]) string {
	var list []string
	for name := range arrays {
		if identifier.MatchString(name) {
			name = "." + name
		} else {
			name = "[" + string(appendString(nil, name)) + "]"
		}
		if list = append(list, fault.ClipRunes(text, maxRemedy)+fault.ClipRunes(name, maxRemedy)); len(list) == maxRemedies {
			break
		}
	}
	if len(list) == 0 {
		return ": of an object, values(" + fault.ClipRunes(text, maxRemedy) + ") is an array"
	}
	return ": take " + strings.Join(list, " or ")
}

// each is a forEach under way. Workers take the next element each; what they share is guarded.
type each struct {
	*run
	step      *plannedStep
	within    *enclosing
	scope     refs.Scope
	items     [][]byte
	results   [][]byte
	next      atomic.Int64
	first     atomic.Int64 // the lowest element that failed; len(items): none
	calls     atomic.Int64
	reused    atomic.Int64
	pending   atomic.Bool
	defaulted atomic.Bool
	truncated atomic.Bool

	most    int64 // workers at once, that on the step's own goroutine included
	extra   atomic.Int64
	workers sync.WaitGroup

	mu     sync.Mutex
	failed []elementFault
}

// work runs elements until there is none left or none may start. While there are goroutines to spare, and elements for
// them, it sets another to work.
func (e *each) work(ctx context.Context) {
	scope := e.scope
	for {
		i := int(e.next.Add(1) - 1)
		if i >= len(e.items) || e.stopped(ctx, i) {
			return
		}
		if i+1 < len(e.items) {
			e.share(ctx)
		}
		e.take(ctx, &scope, i)
	}
}

// share starts another worker where the step's concurrency and the run's goroutines allow it.
func (e *each) share(ctx context.Context) {
	if e.extra.Load()+1 >= e.most {
		return
	}
	if e.extra.Add(1)+1 > e.most {
		e.extra.Add(-1)
		return
	}
	if !e.another() {
		e.extra.Add(-1)
		return
	}
	e.workers.Go(func() {
		growStack()
		defer e.free()
		defer e.extra.Add(-1)
		e.work(ctx)
	})
}

// take runs element i and keeps what comes of it.
func (e *each) take(ctx context.Context, scope *refs.Scope, i int) {
	scope.Item, scope.Index = e.items[i], i
	s := stepRun{within: e.within, index: i}
	raw, f := e.one(ctx, scope, &s)
	e.calls.Add(s.calls)
	e.reused.Add(s.reused)
	if s.pending {
		e.pending.Store(true)
		return
	}
	if s.truncated {
		e.truncated.Store(true)
	}
	if f != nil && e.defaults(ctx, e.step, &s, f) && e.keep(e.step, e.step.orElse) == nil {
		raw, f = e.step.orElse, nil
		e.defaulted.Store(true)
		s.standIn()
	}
	if f != nil {
		e.fail(elementFault{i, f, s.outcome, s.fn})
		return
	}
	e.results[i] = raw
}

// one runs an element and charges its result.
func (e *each) one(ctx context.Context, scope *refs.Scope, s *stepRun) (raw []byte, f *fault.Error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			raw, f = nil, defect(e.step, panicked)
		}
	}()
	raw, f = e.element(ctx, e.step, scope, s)
	if f == nil {
		f = e.keep(e.step, raw)
	}
	return raw, f
}

// stopped reports whether element i may not start any more. With onError stop the elements before the first failure
// still run, so that which one is reported does not hang on time.
func (e *each) stopped(ctx context.Context, i int) bool {
	if ctx.Err() != nil || e.exhausted.Load() || e.atEnd() {
		return true
	}
	return e.plan.onError != onErrorContinue && int64(i) > e.first.Load()
}

func (e *each) fail(f elementFault) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failed = append(e.failed, f)
	e.first.Store(min(e.first.Load(), int64(f.index)))
}

// end makes the step's result and status out of its elements'.
func (e *each) end(ctx context.Context, s *stepRun) {
	slices.SortFunc(e.failed, func(a, b elementFault) int { return a.index - b.index })
	s.unstarted, s.skipped = e.unstarted(), e.skipReason(ctx)
	failed := len(e.failed) > 0
	if s.calls > 0 || failed {
		e.leftOut(e.step, s)
	}
	if failed && e.plan.onError != onErrorContinue { // what never started is left out at the end
		last := len(e.results)
		for last > 0 && e.results[last-1] == nil {
			last--
		}
		if e.results = e.results[:last]; last == 0 {
			e.lowest(s)
			return
		}
	}
	complete := true
	size := 2
	for i, raw := range e.results {
		if raw == nil {
			complete = false
			e.results[i] = null
		}
		size += len(e.results[i]) + 1
	}
	if int64(size) > e.o.MaxResultBytes {
		s.fail(e.step, fault.New(fault.LimitExceeded, "the array of results has %d bytes, the limit is %d (limits.maxResultBytes): select less of each", size, e.o.MaxResultBytes).Under(e.step.at))
		return
	}
	s.raw = joinArray(e.results, size)
	switch {
	case failed:
		e.lowest(s)
	case !complete && e.exhausted.Load() && s.calls == 0:
		s.status, s.reason, s.raw = statusSkipped, reasonBudget, nil
	case !complete && e.exhausted.Load():
		s.fail(e.step, e.callsUsedUp(e.step.at))
	case !complete && e.unwritten.Load():
		s.fail(e.step, journalAway(e.step.at))
	case !complete:
		s.fail(e.step, e.interrupted(e.step))
	default:
		s.status = statusOK
	}
}

func joinArray(elements [][]byte, size int) []byte {
	array := make([]byte, 0, size)
	array = append(array, '[')
	for i, raw := range elements {
		if i > 0 {
			array = append(array, ',')
		}
		array = append(array, raw...)
	}
	return append(array, ']')
}

// lowest makes the failure of the lowest element the step's.
func (e *each) lowest(s *stepRun) {
	first := e.failed[0]
	s.index, s.fn, s.outcome, s.elements = first.index, first.fn, first.outcome, e.failed
	if e.plan.onError != onErrorContinue {
		s.elements = e.failed[1:]
	}
	s.fail(e.step, first.err)
}

// unstarted gives the elements that have neither a result nor a failure.
func (e *each) unstarted() (list []interval) {
	failed := e.failed
	for i, raw := range e.results {
		switch {
		case len(failed) > 0 && failed[0].index == i:
			failed = failed[1:]
		case raw == nil:
			list = appendInterval(list, interval{i, i})
		}
	}
	return list
}
