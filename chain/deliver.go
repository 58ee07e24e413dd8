package chain

import (
	"context"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// Delivery has the options of Engine.Deliver.
type Delivery struct {
	MaxTotalTokens int // the token limit of the answer, which can only lower the server's; 0: the server's
}

// Deliver answers a JSON value that a front end has made, such as help or search results, within the token budget of a caller (nil: the
// zero Caller). The answer is in the lite form: the value if it fits, else a probe whose token fetches it. ProbeAbove does not apply. d
// may be nil. The value may be stored, so it must not be changed afterwards. Errors are in the Answer: budget_too_small, limit_exceeded
// if the value does not fit and there is no store, internal if it is not JSON.
func (e *Engine) Deliver(ctx context.Context, value []byte, d *Delivery, caller *Caller) (a *Answer) {
	s := e.newRequest(caller)
	defer s.finish(ctx, KindDeliver, &a)
	ctx = s.observeBegin(ctx, KindDeliver, nil, 0)
	if d != nil && d.MaxTotalTokens != 0 {
		if f := s.applyForm(&plan.BudgetRequest{MaxTotalTokens: &d.MaxTotalTokens}, nil, ""); f != nil {
			return s.failureAnswer(ctx, f)
		}
	}
	s.form.Lite, s.form.Trace = true, "none"
	compact, err := schema.Compact(value)
	if err != nil {
		return s.failureAnswer(ctx, fault.New(fault.Internal, "a defect of onecall: what was to be answered is not JSON"))
	}
	c := s.content(facts.NoStep(nil))
	c.Result = compact
	return s.answer(ctx, c)
}
