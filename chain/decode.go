package chain

import (
	"context"

	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/internal/decode"
)

// decode reads a request. The request has all that could be read, and the faults say what could not. It is nil, with one fault, if text is
// not a JSON object or has both a continuation token and steps. It is nil, without a fault, if s.cutOff says why: the context has ended, or
// the run to resume cannot be loaded.
func (s *request) decode(ctx context.Context, text []byte) (*plan.Request, *decode.Faults) {
	if len(text) >= plan.HeavyRequest {
		var slot admit.Slot
		if err := slot.Acquire(ctx); err != nil {
			s.cutOff = plan.AbandonedFault(ctx, err, "read")
			return nil, &decode.Faults{}
		}
		defer slot.Release()
	}
	if s.decision != nil {
		chain, f := s.loadDecided(ctx)
		if f != nil {
			s.cutOff = f
			return nil, &decode.Faults{}
		}
		if s.single == nil {
			text = chain
		}
	}
	if s.single != nil {
		return plan.DecodeCall(s.single, s.o.MaxRequestBytes)
	}
	e := plan.ReadEnvelope(text, s.line, &s.rules.Requests)
	if e.Warning != nil {
		s.warn(e.Warning)
	}
	switch {
	case e.Fetch != nil:
		return &plan.Request{Fetch: e.Fetch}, &e.Faults
	case !e.Chain.Exists():
		return nil, &e.Faults
	}
	if s.plansOnly && s.decision == nil {
		if f := plan.CheckPlanCall(e.Chain); f != nil {
			e.Faults.Add(f)
			return nil, &e.Faults
		}
	}
	if s.decision == nil {
		var f *fault.Error
		dry := s.override.DryRun || s.override.Check
		if e.Chain, f = s.ledger.Merge(ctx, e.Chain, dry, s.override.Input != nil || s.override.Set != nil); f != nil {
			s.cutOff = f
			return nil, &decode.Faults{}
		}
		s.form.Replaced = s.ledger.Replaced
	}
	if s.plansOnly && plan.CheckPlanCall(e.Chain) != nil { // the run began before its caller was given plans only
		f := fault.New(fault.Denied, "this run did not begin as the call of a plan, and this caller may only call signed plans")
		e.Faults.Add(f.Under("/resume"))
		return nil, &e.Faults
	}
	return e.DecodeChain(e.Chain), &e.Faults
}
