package chain

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
)

// Engine runs chains. It is safe for use by many goroutines at once and holds nothing that must be closed.
type Engine struct {
	o Options
}

// Journal is what the engine remembers runs in; nil: it remembers none.
func (e *Engine) Journal() *journal.Journal { return e.o.Journal }

// New makes an engine. It fails with bad_request when there are no Functions or a limit is below zero, and with
// budget_too_small when MaxTotalTokens is positive and below budget.Least of the counter.
func New(o *Options) (*Engine, error) {
	if o == nil || o.Functions == nil {
		return nil, fault.New(fault.BadRequest, "Options.Functions is missing: give the registry whose functions the steps may call")
	}
	e := &Engine{o: *o}
	if err := e.o.setDefaults(); err != nil {
		return nil, err
	}
	if e.o.Results != nil {
		e.o.Results = e.o.Results.Under(e.o.MaxTotalTokens)
	}
	return e, nil
}

// Run runs one request, a chain or a fetch of an earlier large result, for a caller (nil: the zero Caller) and answers
// it. It always answers: what is wrong with the request, the functions or the data is in the Answer, with a code. When
// ctx ends, the running calls are cancelled and the answer carries what had ended.
func (e *Engine) Run(ctx context.Context, text []byte, c *Caller) (a *Answer) {
	s := e.newExchange(c)
	defer s.conclude(ctx, KindChain, &a)
	return s.carryOut(ctx, text)
}

// stopped is the fault for what a panic has stopped. What panicked and where is its cause, and not in its message.
func stopped(panicked any, what string) *fault.Error {
	f := fault.New(fault.Internal, "%s", what)
	f.Err = fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
	return f
}

// carryOut does what a request asks, a chain or the arguments of a single call.
func (s *exchange) carryOut(ctx context.Context, text []byte) *Answer {
	defer s.release()
	ctx = admit.With(ctx, &s.computing)
	r, faults := s.decode(ctx, text) // r is nil if nothing could be decoded
	ctx = s.begins(ctx, s.kind(r), r, len(text))
	if r != nil && r.fetch != nil {
		return s.fetch(ctx, r.fetch, faults.list)
	}
	if s.said.undo && (s.taken != nil || s.looked != nil) {
		if f := s.mayUndo(); f != nil {
			return s.failure(ctx, f)
		}
		return s.undoRun(ctx)
	}
	s.await(ctx, r)
	p, ended := s.compile(ctx, r, faults)
	switch {
	case ended != nil:
		return s.failure(ctx, ended)
	case len(faults.list) > 0:
		return s.refuse(ctx, text, p, faults)
	}
	if s.o.Planned != nil {
		s.o.Planned(p.functions(nil))
	}
	switch {
	case s.override.Check:
		return s.checked(text)
	case p.dryRun:
		return s.answerPlan(ctx, p, r)
	}
	if f := s.remember(p, r); f != nil {
		return s.failure(ctx, f)
	}
	return s.report(ctx, s.execute(ctx, p))
}
