package run

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/decode"
	"github.com/onecall-mcp/onecall/refs"
)

// forEach runs the step for each element and returns the array of results. Elements start in order, as many at once as the concurrency
// allows. It stops at the first failure unless onError is continue.
func (r *Run) forEach(ctx context.Context, p *plan.Step, scope refs.Scope, s *stepRun) {
	items, size, f := r.items(ctx, p, &scope)
	if f != nil {
		s.fail(p, f)
		return
	}
	defer r.o.Memory.Release(size)
	s.Count = len(items)
	e := &forEachRun{run: r, step: p, frame: s.frame, scope: scope, items: items, results: make([][]byte, len(items)),
		maxWorkers: int64(p.Concurrency)}
	e.first.Store(int64(len(items)))
	e.open.Store(1)
	e.work(ctx)
	e.workers.Wait()
	s.LastCall, s.Kept = e.lastCall, int(e.kept.Load())
	s.Calls, s.Reused, s.Defaulted, s.Truncated = e.calls.Load(), e.reused.Load(), int(e.defaulted.Load()), e.truncated.Load()
	if s.Pending = e.pending.Load(); s.Pending {
		s.Status = facts.StatusOK
		return
	}
	if r.pauses.suspended() {
		s.Status, s.Reason = facts.StatusSkipped, facts.ReasonStopped
		return
	}
	e.finishForEach(ctx, s)
}

// items resolves the array of a forEach. size is the array's size in bytes, which count as held until the caller releases them.
func (r *Run) items(ctx context.Context, p *plan.Step, scope *refs.Scope) (items [][]byte, size int, f *fault.Error) {
	at := p.At + "/forEach"
	raw, err := p.ForEach.Resolve(ctx, scope)
	if err != nil {
		return nil, 0, fault.From(err, at)
	}
	if f := r.o.Memory.Hold(len(raw)); f != nil {
		return nil, 0, f.Under(at)
	}
	list := gjson.ParseBytes(raw)
	if !list.IsArray() {
		r.o.Memory.Release(len(raw))
		return nil, 0, fault.New(fault.BadArguments, "forEach needs an array, not %s%s", decode.Describe(list),
			arrayInstead(p.ForEach.String(), list)).Under(at)
	}
	list.ForEach(func(_, item gjson.Result) bool {
		items = append(items, raw[item.Index:item.Index+len(item.Raw)])
		return len(items) <= r.o.MaxElements
	})
	if len(items) > r.o.MaxElements {
		r.o.Memory.Release(len(raw))
		return nil, 0, fault.New(fault.LimitExceeded, "forEach has more than %d elements (limits.maxElements): select fewer",
			r.o.MaxElements).Under(at)
	}
	return items, len(raw), nil
}

// arrayInstead suggests how to get an array from a value that is not one; text is the expression of that value. "": there is no suggestion.
func arrayInstead(text string, value gjson.Result) string {
	switch {
	case value.Type == gjson.String && strings.HasPrefix(strings.TrimSpace(value.Str), "[") && gjson.Valid(value.Str):
		return ": fromJSON(" + fault.ClipRunes(text, plan.MaxRemedyChars) + ") is the array"
	case value.Type == gjson.String:
		return plan.SplitInstead(text)
	case value.IsObject():
		return plan.MembersInstead(text, func(yield func(string) bool) {
			value.ForEach(func(name, member gjson.Result) bool { return !member.IsArray() || yield(name.String()) })
		})
	}
	return ""
}

// forEachRun is a forEach under way. Each worker takes the next element.
type forEachRun struct {
	run       *Run
	step      *plan.Step
	frame     *facts.Frame
	scope     refs.Scope
	items     [][]byte
	results   [][]byte
	next      atomic.Int64 // the next element to run
	first     atomic.Int64 // the lowest element that failed; len(items): none
	calls     atomic.Int64
	reused    atomic.Int64
	pending   atomic.Bool
	defaulted atomic.Int64
	kept      atomic.Int64 // elements whose calls were all taken from the journal, in a rehearsal
	truncated atomic.Bool

	maxWorkers int64        // the maximum number of workers, including the step's own goroutine
	extra      atomic.Int64 // workers besides the step's own goroutine
	open       atomic.Int64 // goroutines that run elements
	workers    sync.WaitGroup

	mu       sync.Mutex
	failed   []facts.Element
	lastCall time.Time // when the last call of any element ended; zero: there was none
}

// work runs elements until none is left or none may start. If there are elements and slots left, it adds a worker.
func (e *forEachRun) work(ctx context.Context) {
	defer func() {
		if e.open.Add(-1) > 0 { // the last one leaves its share of pauses.atWork to the step's own goroutine
			e.run.pauses.add(-1)
		}
	}()
	scope := e.scope
	for {
		i := int(e.next.Add(1) - 1)
		if i >= len(e.items) || e.mayNotStart(ctx, i) {
			return
		}
		if i+1 < len(e.items) {
			e.addWorker(ctx)
		}
		e.runItem(ctx, &scope, i)
	}
}

// addWorker starts another worker, if the step's concurrency and the run's slots allow it.
func (e *forEachRun) addWorker(ctx context.Context) {
	if e.extra.Load()+1 >= e.maxWorkers {
		return
	}
	if e.extra.Add(1)+1 > e.maxWorkers {
		e.extra.Add(-1)
		return
	}
	if !e.run.slots.take() {
		e.extra.Add(-1)
		return
	}
	e.open.Add(1)
	e.run.pauses.add(1)
	e.workers.Go(func() {
		growStack()
		defer e.run.slots.free()
		defer e.extra.Add(-1)
		e.work(ctx)
	})
}

// runItem runs element i and stores its result.
func (e *forEachRun) runItem(ctx context.Context, scope *refs.Scope, i int) {
	scope.Item, scope.Index = e.items[i], i
	s := stepRun{Step: facts.Step{Index: i}, frame: e.frame}
	raw, f := e.runGuarded(ctx, scope, &s)
	e.calls.Add(s.Calls)
	e.reused.Add(s.Reused)
	e.noteEnd(&s, f)
	if f == nil && s.Reused > 0 {
		e.kept.Add(1)
	}
	if s.Pending {
		e.pending.Store(true)
		return
	}
	if s.Truncated {
		e.truncated.Store(true)
	}
	if f != nil && e.run.mayDefault(ctx, e.step, &s, f) && e.run.results.charge(e.step, e.step.OrElse) == nil {
		raw, f = e.step.OrElse, nil
		e.defaulted.Add(1)
		s.recordDefault()
	}
	if f != nil {
		e.fail(facts.Element{Index: i, Err: f, Outcome: s.Outcome, Fn: s.Failed})
		return
	}
	e.results[i] = raw
}

// noteEnd records when the last call of an element ended. An element that has failed keeps the run from being suspended.
func (e *forEachRun) noteEnd(s *stepRun, f *fault.Error) {
	if f != nil {
		e.run.pauses.add(1)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.LastCall.After(e.lastCall) {
		e.lastCall = s.LastCall
	}
}

// runGuarded runs an element, recovers from a panic and charges the result.
func (e *forEachRun) runGuarded(ctx context.Context, scope *refs.Scope, s *stepRun) (raw []byte, f *fault.Error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			raw, f = nil, stepPanicFault(e.step, panicked)
		}
	}()
	raw, f = e.run.runElement(ctx, e.step, scope, s)
	if f == nil {
		f = e.run.results.charge(e.step, raw)
	}
	return raw, f
}

// mayNotStart reports whether element i must not start any more. With onError stop, elements before the first failure still run, so that
// the reported failure does not depend on timing.
func (e *forEachRun) mayNotStart(ctx context.Context, i int) bool {
	if ctx.Err() != nil || e.run.exhausted.Load() || e.run.mustStop() {
		return true
	}
	return e.run.plan.OnError != plan.OnErrorContinue && int64(i) > e.first.Load()
}

func (e *forEachRun) fail(f facts.Element) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failed = append(e.failed, f)
	e.first.Store(min(e.first.Load(), int64(f.Index)))
}

// finishForEach derives the step's result and status from its elements.
func (e *forEachRun) finishForEach(ctx context.Context, s *stepRun) {
	slices.SortFunc(e.failed, func(a, b facts.Element) int { return a.Index - b.Index })
	s.Unstarted, s.UnstartedReason = e.unstarted(), e.run.skipReason(ctx)
	failed := len(e.failed) > 0
	if s.Calls > 0 || failed {
		s.logUnstarted(e.run.ledger, e.step)
	}
	if failed && e.run.plan.OnError != plan.OnErrorContinue { // drop the elements without a result from the end
		last := len(e.results)
		for last > 0 && e.results[last-1] == nil {
			last--
		}
		if e.results = e.results[:last]; last == 0 {
			e.failWithFirst(s)
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
	if int64(size) > e.run.o.MaxResultBytes {
		s.fail(e.step, fault.New(fault.LimitExceeded, "the array of results has %d bytes, the limit is %d (limits.maxResultBytes): "+
			"select less of each", size, e.run.o.MaxResultBytes).Under(e.step.At))
		return
	}
	s.Raw = joinArray(e.results, size)
	switch {
	case failed:
		e.failWithFirst(s)
	case !complete && e.run.exhausted.Load() && s.Calls == 0:
		s.Status, s.Reason, s.Raw = facts.StatusSkipped, facts.ReasonBudget, nil
	case !complete && e.run.exhausted.Load():
		s.fail(e.step, e.run.outOfCallsFault(e.step.At))
	case !complete && e.run.journalFailed.Load():
		s.fail(e.step, journalDownFault(e.step.At))
	case !complete:
		s.fail(e.step, e.run.ends.interrupted(e.step.At))
	default:
		s.Status = facts.StatusOK
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

// failWithFirst makes the failure of the lowest element the step's; if one waits for approval, that of the lowest that does.
func (e *forEachRun) failWithFirst(s *stepRun) {
	at := max(0, slices.IndexFunc(e.failed, func(f facts.Element) bool { return f.Err.Code == fault.ApprovalRequired }))
	first := e.failed[at]
	s.Index, s.Failed, s.Outcome, s.FailedElements = first.Index, first.Fn, first.Outcome, e.failed
	if e.run.plan.OnError != plan.OnErrorContinue {
		s.FailedElements = slices.Delete(slices.Clone(e.failed), at, at+1)
	}
	s.fail(e.step, first.Err)
}

// unstarted returns the elements that have neither a result nor a failure.
func (e *forEachRun) unstarted() (list []facts.Interval) {
	failed := e.failed
	for i, raw := range e.results {
		switch {
		case len(failed) > 0 && failed[0].Index == i:
			failed = failed[1:]
		case raw == nil:
			list = facts.AppendInterval(list, facts.Interval{First: i, Last: i})
		}
	}
	return list
}
