package chain

import (
	"cmp"
	"context"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/chain/internal/run"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/internal/decode"
)

// Engine runs chains. It is safe for concurrent use and holds nothing that must be closed.
type Engine struct {
	o Options
}

// Journal returns the journal that records runs, or nil if there is none.
func (e *Engine) Journal() *journal.Journal { return e.o.Journal }

// Scope returns Options.Scope.
func (e *Engine) Scope() string { return e.o.Scope }

// New returns an engine. It fails with budget_too_small if MaxTotalTokens is neither 0 nor at least budget.MinTokensFor of the counter. It
// fails with bad_request if Functions is missing, a limit is negative (-1 is allowed where its field says so), MaxRunningBytes is below
// twice MaxChainBytes, or Hoist has a name with a meaning of its own.
func New(o *Options) (*Engine, error) {
	if o == nil || o.Functions == nil {
		return nil, fault.New(fault.BadRequest, "Options.Functions is missing: give the registry whose functions the steps may call")
	}
	e := &Engine{o: *o}
	if err := e.o.setDefaults(); err != nil {
		return nil, err
	}
	if e.o.Results != nil {
		e.o.Results = e.o.Results.WithMaxTokens(e.o.MaxTotalTokens)
	}
	return e, nil
}

// Run answers one request of a caller (nil: the zero Caller): a chain, or a fetch of an earlier large result. It always returns an
// Answer; errors of the request, the functions and the data are in it, with a code. If ctx ends, running calls are cancelled and the
// answer has the results of the steps that had ended.
func (e *Engine) Run(ctx context.Context, text []byte, c *Caller) (a *Answer) {
	s := e.newRequest(c)
	defer s.finish(ctx, KindChain, &a)
	return s.serve(ctx, text)
}

// serve carries out a request. Its text is a chain, a fetch, or the arguments of a single call.
func (s *request) serve(ctx context.Context, text []byte) *Answer {
	defer func() {
		if !s.detached { // else complete does this when the run has ended
			s.memory.End()
		}
	}()
	ctx = admit.WithRequest(ctx, &s.computing)
	r, faults := s.decode(ctx, text) // r is nil if nothing could be decoded
	ctx = s.observeBegin(ctx, s.requestKind(r), r, len(text))
	if r != nil && r.Fetch != nil {
		return s.answerFetch(ctx, r.Fetch, faults.List)
	}
	if s.ledger.Resumption.Undo && (s.ledger.Leased() != nil || s.ledger.Previewed() != nil) {
		if f := s.checkUndo(); f != nil {
			return s.failureAnswer(ctx, f)
		}
		if r != nil {
			_ = s.applyForm(nil, r.Lite, "")
		}
		s.showUnknown() // an undo that fails says why
		return s.answerUndo(ctx)
	}
	s.followLiterals(ctx, text)
	s.view = s.rules.AwaitFunctions(ctx, r)
	p, ended := s.plan(ctx, r, len(text), faults)
	switch {
	case ended != nil:
		return s.failureAnswer(ctx, ended)
	case len(faults.List) > 0:
		return s.refuse(ctx, text, p, faults)
	}
	if s.o.Planned != nil {
		s.o.Planned(p.Callable())
	}
	switch {
	case s.override.Check && !s.override.DryRun:
		return s.checkAnswer(ctx, text, p, r)
	case p.DryRun:
		return s.answerPlan(ctx, p, r)
	}
	return s.carryOut(ctx, p, r)
}

// plan compiles a request of so many bytes; r is nil if nothing could be decoded. It adds what is wrong to faults. An error means that
// decoding or compiling was cut off, or that the run to resume could not be loaded.
func (s *request) plan(ctx context.Context, r *plan.Request, bytes int, faults *decode.Faults) (*plan.Plan, *fault.Error) {
	if r == nil {
		return nil, s.cutOff
	}
	s.decoded, s.form.Steps, s.form.Verify, s.form.Format = r, r, r.Verify, cmp.Or(s.override.Format, r.Format)
	if low := s.applyForm(r.Budget, r.Lite, r.Trace); low != nil {
		faults.Add(low)
	}
	s.rules.WholeResults, s.rules.Assumed = s.o.WholeResults, s.assumedResults()
	s.rules.Resumes = s.ledger.Leased() != nil || s.ledger.Previewed() != nil
	p, found := plan.Compile(ctx, r, s.view, &s.rules, bytes >= plan.HeavyRequest, *faults)
	*faults, s.limits, s.signatures = found.Faults, found.Limits, found.Signatures
	if found.MaxTokens > 0 {
		s.lowerTokens(found.MaxTokens)
	}
	s.checkCredentials(r, p, faults)
	if len(faults.List) > 0 {
		found.Warnings.DropMisleading(faults.List)
	}
	s.warn(found.Warnings...)
	return p, found.CutOff
}

// carryOut runs a plan, and answers when it has ended, or earlier if the request says so.
func (s *request) carryOut(ctx context.Context, p *plan.Plan, r *plan.Request) *Answer {
	s.flow = p.Flow
	s.labelKept(false)
	if answer := s.answerHandedOver(ctx); answer != nil {
		return answer
	}
	s.compareWith(ctx, r)
	detachment, f := s.detachment(ctx, r)
	if f == nil {
		f = s.readState(ctx, p)
	}
	if f == nil {
		f = s.beginRecord(p, r)
	}
	if f == nil {
		s.recordWarned(p)
	}
	switch {
	case f != nil:
		return s.failureAnswer(ctx, f)
	case detachment.field != "":
		return s.runDetached(ctx, p, r, detachment)
	}
	return s.report(ctx, p, s.execute(ctx, p))
}

// execute runs a plan.
func (s *request) execute(ctx context.Context, p *plan.Plan) *run.Run {
	s.executed = run.New(ctx, p, s.runOptions())
	s.executed.Execute(ctx)
	return s.executed
}

// runOptions says with what the run of the request works.
func (s *request) runOptions() *run.Options {
	functions := s.view
	if functions != nil && functions.Beneath() != nil { // a signed chain was compiled with them
		functions = functions.Beneath()
	}
	o := &run.Options{Ledger: &s.ledger, Functions: functions, Caller: s.caller, State: s.state, Memory: &s.memory,
		MaxConcurrency: s.o.MaxConcurrency, MaxElements: s.o.MaxElements, MaxResultBytes: s.o.MaxResultBytes,
		MaxChainBytes: s.o.MaxChainBytes, StepTimeout: s.o.StepTimeout,
		Laddered: s.o.Rung != nil, KeepArgs: s.form.Trace == "full", Suspend: s.longestWait(), Results: s.form.Results, Ask: s.askApproval}
	if s.progress != nil {
		o.Progress = func(p facts.Progress) {
			if p.Message != "" { // it is the function's
				s.show(false)
			}
			s.progress(Progress(p))
		}
	}
	if s.log != nil {
		o.Log = func(m facts.LogMessage) {
			s.show(false)
			s.log(LogMessage(m))
		}
	}
	if s.observation != nil {
		o.Observer = s.observation
	}
	return o
}
