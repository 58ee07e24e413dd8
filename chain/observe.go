package chain

import (
	"context"
	"time"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Observer is notified of the requests that an Engine carries out and of their steps, for logs, metrics and traces. It is called
// concurrently and on the path of the chain, so it must return at once. It must not change its arguments.
//
// Both methods return a context derived from theirs, and a function that is called once at the end. Either may be nil. A panic in an
// observer does not affect the chain; the observer is not notified of that request or step again.
type Observer interface {
	// Request reports the start of a request. All work for the request runs in the returned context.
	Request(ctx context.Context, r *RequestInfo) (context.Context, func(*RequestEnd))
	// Step reports the start of a step, including those of inline chains, but not each element of a forEach. The step's calls run in the
	// returned context. ctx is derived from that of Request, or in an inline chain from that of the step around it.
	//
	// A request may have a million steps. Step and its end are passed as values, so that they need no allocation.
	Step(ctx context.Context, s StepInfo) (context.Context, func(StepEnd))
}

// Identifier is an Observer that gives requests ids. A front end may show them to its callers, who can then name a failure that the
// operator finds in the logs.
type Identifier interface {
	Observer
	// Identify returns a context derived from ctx, and an id for all requests of a caller that begin in it. given is an id from an
	// earlier Identify, or "" for a new one. New ids are unique and reveal nothing of other requests, not even their number. An empty id
	// means that there is none; the context is not used then.
	Identify(ctx context.Context, given string) (observed context.Context, id string)
}

// Kind is the kind of a request.
type Kind string

// The kinds of requests.
const (
	KindChain   Kind = "chain"   // runs a chain
	KindPlan    Kind = "plan"    // compiles a chain without running it: a dry run or a check
	KindCall    Kind = "call"    // calls one function (Engine.Call)
	KindFetch   Kind = "fetch"   // fetches from a stored result
	KindDeliver Kind = "deliver" // answers a value of the front end, such as help or search results (Engine.Deliver)
	KindRefuse  Kind = "refuse"  // answers with faults that the front end found (Engine.Refuse)
	KindPass    Kind = "pass"    // a call that the front end makes itself and reports by Engine.Observe
)

// RequestInfo describes a request at its start. Label and Name come from its caller.
type RequestInfo struct {
	Kind    Kind
	Caller  string    // Caller.ID
	Label   string    // Caller.Label
	Name    string    // the name of the chain; "": it has none
	Steps   int       // the number of steps of the outermost chain as written; 1 for a call
	Bytes   int       // the size of the request
	Started time.Time // when the request came, before it was decoded
}

// RequestEnd describes a request at its end.
type RequestEnd struct {
	Err      *fault.Error   // the error as in Answer; nil: ok
	Faults   []*fault.Error // the faults as in Answer
	Function string         // the canonical name of the function that a call called, or whose failure failed a chain; "": none

	Skipped  int   // steps of the outermost chain that did not run
	Calls    int64 // the number of calls of functions, including repetitions and inline chains
	Cached   int64 // how many of Calls the call cache answered
	Warnings int
	Flows    []string // what flow rules warn of: the ways of values, in words

	Bytes  int  // the size of the answer
	Tokens int  // the tokens of the answer; estimated if it is lite
	Stored int  // estimated tokens of results that are not in the answer: intermediate ones, and what a probe or a lean form replaces
	Probe  bool // the answer has a probe of the result
	Lean   bool // the answer has the lean form of a write

	Took time.Duration
}

// StepInfo describes a step at its start.
type StepInfo struct {
	Number   int    // the number of the step in its own chain
	At       string // its JSON Pointer in the request, such as /steps/1/chain/steps/0
	Function string // the canonical name; "expr" for an expression, "" for an inline chain
	Effect   steps.Effect
	ForEach  bool
}

// StepEnd describes a step at its end.
type StepEnd struct {
	Status   string       // ok, failed or skipped
	Reason   string       // why it was skipped
	Err      *fault.Error // why it failed; else nil
	Function string       // the function that failed, which in an inline chain is not the step's own
	Calls    int64        // the number of calls of functions
	Elements int          // the number of elements of its forEach; -1: it has none
	Took     time.Duration
}

// Observe reports a request that a front end carries out itself (KindPass) to the engine's Observer. A zero r.Started means now; a zero
// RequestEnd.Took means the time since r.Started. The returned function is never nil. Without an observer, Observe does nothing.
func (e *Engine) Observe(ctx context.Context, r *RequestInfo) (context.Context, func(*RequestEnd)) {
	if e.o.Observer == nil {
		return ctx, func(*RequestEnd) {}
	}
	o := &observation{observer: e.o.Observer, info: *r}
	if o.info.Started.IsZero() {
		o.info.Started = time.Now()
	}
	return o.begin(ctx), func(end *RequestEnd) {
		result := *end
		if result.Took == 0 {
			result.Took = time.Since(o.info.Started)
		}
		o.end(&result)
	}
}

// Identify is Identifier.Identify of the engine's Observer. It returns ctx and "" if the Observer is not an Identifier or gives no id.
func (e *Engine) Identify(ctx context.Context, given string) (observed context.Context, id string) {
	observer, ok := e.o.Observer.(Identifier)
	if !ok {
		return ctx, ""
	}
	defer func() {
		if recover() != nil || observed == nil || id == "" {
			observed, id = ctx, ""
		}
	}()
	return observer.Identify(ctx, given)
}

// observation is a request that is reported to an observer.
type observation struct {
	observer Observer
	info     RequestInfo
	ended    func(*RequestEnd) // the function that Observer.Request returned; nil: none, or it has been called
	begun    bool              // Observer.Request has been called
	result   RequestEnd        // what is known of the end so far
}

// begin reports the start of the request that o.info describes.
func (o *observation) begin(ctx context.Context) (observed context.Context) {
	o.begun = true
	defer func() {
		if recover() != nil || observed == nil {
			observed = ctx
		}
	}()
	observed, o.ended = o.observer.Request(ctx, &o.info)
	return observed
}

// end reports the end of the request, once.
func (o *observation) end(e *RequestEnd) {
	defer func() { _ = recover() }() // a panic of the observer must not cost the answer
	if ended := o.ended; ended != nil {
		o.ended = nil
		ended(e)
	}
}

// observeBegin reports the start of a decoded request to the observer.
func (s *request) observeBegin(ctx context.Context, kind Kind, r *plan.Request, bytes int) context.Context {
	o := s.observation
	if o == nil {
		return ctx
	}
	o.info = RequestInfo{Kind: kind, Caller: s.caller, Label: s.form.Label, Bytes: bytes, Started: s.form.Started}
	if r != nil {
		o.info.Name, o.info.Steps = r.Name, len(r.Steps)
	}
	return o.begin(ctx)
}

// requestKind returns the kind of a decoded request; r is nil if it could not be decoded.
func (s *request) requestKind(r *plan.Request) Kind {
	switch {
	case r != nil && r.Fetch != nil:
		return KindFetch
	case s.single != nil:
		return KindCall
	case s.override.Check || s.override.DryRun || r != nil && r.DryRun:
		return KindPlan
	}
	return KindChain
}

// finish turns a panic into an answer and reports the end of the request to the observer and the journal. It must be
// deferred itself, since it calls recover. It does nothing if the run is detached. Only logs show the cause of a panic.
func (s *request) finish(ctx context.Context, kind Kind, a **Answer) {
	if !s.detached {
		s.conclude(ctx, kind, a, recover())
	}
}

// conclude is finish for a caller that has called recover itself. panicked is what recover returned; nil: there was no panic.
func (s *request) conclude(ctx context.Context, kind Kind, a **Answer, panicked any) {
	if panicked != nil {
		*a = s.failureAnswer(ctx, fault.Panicked(panicked, "a defect of onecall stopped this request"))
	}
	s.journalAnswer(*a)
	o := s.observation
	if o == nil {
		return
	}
	defer func() { _ = recover() }() // a panic of the observer must not cost the answer
	if !o.begun {
		s.observeBegin(ctx, kind, nil, 0)
	}
	e := &o.result
	e.Err, e.Faults, e.Warnings, e.Bytes = (*a).Error, (*a).Faults, len((*a).Warnings), len((*a).JSON)
	if !(*a).Resumes.IsZero() {
		e.Err = nil
	}
	if e.Tokens == 0 {
		e.Tokens = s.form.EstimateAnswer((*a).JSON)
	}
	e.Flows = s.flow.Warned()
	if r := s.executed; r != nil {
		done := r.Facts()
		e.Calls, e.Cached = done.Calls(), done.Cached
		for i := range done.Steps {
			if done.Steps[i].Status == facts.StatusSkipped {
				e.Skipped++
			}
		}
		e.Function = s.failedFunction(done, e.Err)
	}
	e.Took = time.Since(s.form.Started)
	o.end(e)
}

// failedFunction returns the function of a call, or the one that failed a chain, or "".
func (s *request) failedFunction(r *facts.Run, failure *fault.Error) string {
	if s.single != nil {
		return r.Steps[0].Name()
	}
	for i := range r.Steps {
		if step := &r.Steps[i]; failure != nil && step.Status == facts.StatusFailed && step.Failed != nil {
			return step.Failed.Spec().Name
		}
	}
	return ""
}

// StepBegins implements run.Observer.
func (o *observation) StepBegins(ctx context.Context, p *plan.Step) (observed context.Context, ended any) {
	defer func() {
		if recover() != nil {
			observed, ended = ctx, nil
		} else if observed == nil {
			observed = ctx
		}
	}()
	observed, end := o.observer.Step(ctx,
		StepInfo{Number: p.Number, At: p.At, Function: p.Name(), Effect: p.Effect, ForEach: p.ForEach != nil})
	if end == nil {
		return observed, nil
	}
	return observed, end
}

// StepEnded implements run.Observer.
func (o *observation) StepEnded(ended any, s facts.Step) {
	defer func() { _ = recover() }() // a panic of the observer must not cost the step
	e := StepEnd{Status: s.Status, Reason: s.Reason, Err: s.Err, Function: s.Name(), Calls: s.Calls, Elements: s.Count, Took: s.Took}
	if s.Failed != nil {
		e.Function = s.Failed.Spec().Name
	}
	ended.(func(StepEnd))(e)
}
