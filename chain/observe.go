package chain

import (
	"context"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Observer is told of the requests that an Engine carries out and of their steps, for logs, metrics and traces. Many
// goroutines call it at once, and what they run waits for it: it must return at once, and must change nothing that it is
// given.
//
// Both methods give a context, which descends from theirs, and a function that is told of the end, once; either may be nil.
// An observer that panics changes nothing of the chain, and is told nothing more of what it panicked about.
type Observer interface {
	// Request tells that a request begins. All that is done for it runs in the context that is given.
	Request(ctx context.Context, r *Observed) (context.Context, func(*Ended))
	// Step tells that a step begins, one of an inline chain too, but not each element of a forEach. Its calls run in the context
	// that is given. ctx descends from what Request gave, and in an inline chain from what Step gave for the step around it.
	//
	// There may be a million of them in a request: what is told of them are values, for which no memory has to be found.
	Step(ctx context.Context, s ObservedStep) (context.Context, func(StepEnded))
}

// Identifier is an Observer that tells requests apart by ids, which a front end may give to its callers: who reports a failure
// can name it, and the operator finds it in the logs.
type Identifier interface {
	Observer
	// Identify gives a context, which descends from ctx, and an id. What is then begun in that context, one request or several
	// of one caller, is told of under this id: given, which an earlier Identify gave, or a new one where given is "". A new one
	// must be different each time, and tell nothing of other requests: not how many there are either. "": there is none, and
	// the context is not used.
	Identify(ctx context.Context, given string) (own context.Context, id string)
}

// Kind is what a request asks for.
type Kind string

// The kinds.
const (
	KindChain   Kind = "chain"   // that a chain is run
	KindPlan    Kind = "plan"    // that a chain is compiled, and nothing of it run: a dry run, a check
	KindCall    Kind = "call"    // that one function is called (Engine.Call)
	KindFetch   Kind = "fetch"   // more of a kept result
	KindDeliver Kind = "deliver" // what the front end has made, such as help, or what a search found (Engine.Deliver)
	KindRefuse  Kind = "refuse"  // what the front end could make no request of (Engine.Refuse)
	KindPass    Kind = "pass"    // a call that the front end makes by itself, and tells of by Engine.Observe
)

// Observed is a request that begins. Label and Name are words of its caller.
type Observed struct {
	Kind    Kind
	Caller  string    // ID of the Caller
	Label   string    // of the Caller
	Name    string    // of the chain, "" where it has none
	Steps   int       // of the outermost chain as it is written; 1 for a call
	Bytes   int       // of the request
	Started time.Time // when it came, which is before it was decoded
}

// Ended is what came of a request.
type Ended struct {
	Err      *fault.Error   // as in Answer; nil: ok
	Faults   []*fault.Error // as in Answer
	Function string         // the one that a call called, or by which a chain failed, by its canonical name; "" where there is none

	Skipped  int   // steps of the outermost chain that did not run
	Calls    int64 // of functions, repetitions and those of inline chains included
	Cached   int64 // of these, calls that the call cache answered
	Warnings int

	Bytes  int  // of the answer
	Tokens int  // of the answer; of one in its lite form estimated
	Kept   int  // estimated: tokens of results that the answer does not hold, intermediate ones and what a probe or a lean form stands for
	Probe  bool // the answer holds a probe in the place of the result
	Lean   bool // or the lean form of a write

	Took time.Duration
}

// ObservedStep is a step that begins.
type ObservedStep struct {
	Number   int    // in its own chain
	At       string // its JSON Pointer in the request, such as /steps/1/chain/steps/0
	Function string // by its canonical name; "expr": an expression; "": an inline chain
	Effect   steps.Effect
	ForEach  bool
}

// StepEnded is what came of a step.
type StepEnded struct {
	Status   string       // ok, failed or skipped
	Reason   string       // of a skipped one
	Err      *fault.Error // of a failed one; else nil
	Function string       // the one that failed; not the step's own in an inline chain
	Calls    int64        // of functions
	Elements int          // of its forEach; -1: it has none
	Took     time.Duration
}

// Observe tells the engine's Observer of a request that a front end carries out by itself: r.Kind is KindPass. What it gives is
// never nil; a zero r.Started is now, and a zero Ended.Took the time since. Without an observer nothing is done.
func (e *Engine) Observe(ctx context.Context, r *Observed) (context.Context, func(*Ended)) {
	if e.o.Observer == nil {
		return ctx, func(*Ended) {}
	}
	o := &observation{observer: e.o.Observer, about: *r}
	if o.about.Started.IsZero() {
		o.about.Started = time.Now()
	}
	return o.begin(ctx), func(end *Ended) {
		told := *end
		if told.Took == 0 {
			told.Took = time.Since(o.about.Started)
		}
		o.end(&told)
	}
}

// Identify gives a context for what a front end does for one call of a caller, and the id under which the engine's Observer tells of
// it: given, which an earlier Identify gave, or a new one where given is "". "" and ctx itself: nobody gives ids, as the Observer
// is no Identifier or there is none.
func (e *Engine) Identify(ctx context.Context, given string) (own context.Context, id string) {
	observer, gives := e.o.Observer.(Identifier)
	if !gives {
		return ctx, ""
	}
	defer func() {
		if recover() != nil || own == nil || id == "" {
			own, id = ctx, ""
		}
	}()
	return observer.Identify(ctx, given)
}

// observation is a request whose observer is told of it.
type observation struct {
	observer Observer
	about    Observed
	ended    func(*Ended)
	begun    bool
	told     Ended
	run      *run // nil: nothing ran
}

// begin tells that the request begins, which o.about is about.
func (o *observation) begin(ctx context.Context) (own context.Context) {
	o.begun = true
	defer func() {
		if recover() != nil || own == nil {
			own = ctx
		}
	}()
	own, o.ended = o.observer.Request(ctx, &o.about)
	return own
}

// end tells what came of it, once.
func (o *observation) end(e *Ended) {
	defer func() { _ = recover() }() // it is not worth an answer
	if ended := o.ended; ended != nil {
		o.ended = nil
		ended(e)
	}
}

// begins tells the observer of the request that was decoded.
func (s *exchange) begins(ctx context.Context, kind Kind, r *request, bytes int) context.Context {
	o := s.observation
	if o == nil {
		return ctx
	}
	o.about = Observed{Kind: kind, Caller: s.owner, Label: s.label, Bytes: bytes, Started: s.started}
	if r != nil {
		o.about.Name, o.about.Steps = r.Name, len(r.Steps)
	}
	return o.begin(ctx)
}

// kind is what a decoded request asks for; nil: it could not be decoded.
func (s *exchange) kind(r *request) Kind {
	switch {
	case r != nil && r.fetch != nil:
		return KindFetch
	case s.single != nil:
		return KindCall
	case s.override.Check || s.override.DryRun || r != nil && r.DryRun:
		return KindPlan
	}
	return KindChain
}

// conclude makes an answer of a panic, whose cause only logs have, and tells the observer what came of the request. It is deferred.
func (s *exchange) conclude(ctx context.Context, kind Kind, a **Answer) {
	if panicked := recover(); panicked != nil {
		*a = s.failure(ctx, stopped(panicked, "a defect of onecall stopped this request"))
	}
	s.answered(*a)
	o := s.observation
	if o == nil {
		return
	}
	defer func() { _ = recover() }() // it is not worth an answer
	if !o.begun {
		s.begins(ctx, kind, nil, 0)
	}
	e := &o.told
	e.Err, e.Faults, e.Warnings, e.Bytes = (*a).Error, (*a).Faults, len((*a).Warnings), len((*a).JSON)
	if e.Tokens == 0 {
		e.Tokens = s.estimate(1, func(int) []byte { return (*a).JSON }, mostSample)
	}
	if r := o.run; r != nil {
		e.Calls, e.Cached = r.made(), r.cached.Load()
		for i := range r.steps {
			if r.steps[i].status == statusSkipped {
				e.Skipped++
			}
		}
		e.Function = s.blamed(r, e.Err)
	}
	e.Took = time.Since(s.started)
	o.end(e)
}

// blamed is the function of a call, or the one by which a chain failed; "": none.
func (s *exchange) blamed(r *run, failure *fault.Error) string {
	if s.single != nil {
		return r.plan.steps[0].name()
	}
	for i := range r.steps {
		if step := &r.steps[i]; failure != nil && step.status == statusFailed && step.fn != nil {
			return step.fn.Spec().Name
		}
	}
	return ""
}

// made is the number of calls of functions.
func (r *run) made() (calls int64) {
	for i := range r.steps {
		calls += r.steps[i].calls
	}
	return calls
}

// tellKept takes note of the results that an answer which was made does not hold.
func (d *draft) tellKept(probe bool) {
	o := d.observation
	if o == nil {
		return
	}
	e := &o.told
	e.Probe, e.Lean = probe, d.leaned && !probe
	switch {
	case d.tokens != nil:
		e.Kept = d.kept
	case o.run != nil:
		e.Kept = o.run.intermediate()
	}
	switch {
	case e.Lean:
		e.Kept += d.roughly(o.run.steps[len(o.run.steps)-1].raw)
	case probe:
		e.Kept += d.roughly(d.result)
	}
}

// intermediate estimates the tokens of the results that are not returned.
func (r *run) intermediate() int {
	if r.single != nil {
		return 0
	}
	n := len(r.steps)
	if r.plan.ret == nil {
		n--
	}
	return r.estimate(n, func(i int) []byte { return r.steps[i].raw }, leastSample)
}

// roughly estimates the tokens of a text.
func (s *exchange) roughly(text []byte) int {
	return s.estimate(1, func(int) []byte { return text }, leastSample)
}

// What is counted for an estimate, in bytes: pieces of a fourth of it all, within these bounds. It takes less time than a
// call. Of several short results, which come by thousands, too little is kept for it to be worth that time.
const (
	pieceBytes  = 64
	leastSample = 2 * pieceBytes
	mostSample  = 16 * pieceBytes

	tooLittle  = 2 * leastSample
	tokenBytes = 3 // of a token in short JSON, about
)

// samples are spare buffers for what is counted.
var samples = sync.Pool{New: func() any { return new([mostSample]byte) }}

// estimate estimates the tokens of n texts, as if they were one, from pieces that stand at even distances in it. A single
// text of up to least bytes, which is at most mostSample, is counted; several that are short together are guessed by their size.
func (s *exchange) estimate(n int, text func(i int) []byte, least int) int {
	size := 0
	for i := range n {
		size += len(text(i))
	}
	if size == 0 {
		return 0
	}
	if size < tooLittle && n > 1 {
		return max(1, size/tokenBytes)
	}
	most := min(max(size/4, least), mostSample) / pieceBytes * pieceBytes
	buffer := samples.Get().(*[mostSample]byte)
	defer samples.Put(buffer)
	sample := sampled(buffer[:0:most], n, text, max(0, size-most)/(most/pieceBytes-1))
	tokens := s.meter.Estimate(sample)
	return int(float64(tokens) * float64(size) / float64(len(sample)))
}

// sampled fills up with pieces of the texts, with so many bytes between any two of them.
func sampled(to []byte, n int, text func(i int) []byte, gap int) []byte {
	skip, left := 0, pieceBytes // until the next piece, and of it
	for i := range n {
		for rest := text(i); len(to) < cap(to); {
			if skip >= len(rest) {
				skip -= len(rest)
				break
			}
			rest = rest[skip:]
			taken := rest[:min(left, len(rest), cap(to)-len(to))]
			to, rest, skip, left = append(to, taken...), rest[len(taken):], 0, left-len(taken)
			if left == 0 {
				skip, left = gap, pieceBytes
			}
		}
	}
	return to
}

// beginStep tells the observer that a step begins; it gives what is called at its end, nil where nobody is to be told.
func (r *run) beginStep(ctx context.Context, p *plannedStep) (own context.Context, ended func(StepEnded)) {
	if r.observation == nil {
		return ctx, nil
	}
	defer func() {
		if recover() != nil {
			own, ended = ctx, nil
		} else if own == nil {
			own = ctx
		}
	}()
	return r.observation.observer.Step(ctx, ObservedStep{Number: p.number, At: p.at, Function: p.name(), Effect: p.effect, ForEach: p.forEach != nil})
}

// endStep tells it what came of the step.
func (s *stepRun) endStep(p *plannedStep, ended func(StepEnded)) {
	if ended == nil {
		return
	}
	defer func() { _ = recover() }() // it is not worth a step
	e := StepEnded{Status: s.status, Reason: s.reason, Err: s.err, Function: p.name(), Calls: s.calls, Elements: s.count, Took: s.took}
	if s.fn != nil {
		e.Function = s.fn.Spec().Name
	}
	ended(e)
}
