package chain

import (
	"context"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// Delivery says how a value is handed out.
type Delivery struct {
	MaxTotalTokens int // of the answer; it can only lower the server's. 0: the server's
}

// Deliver hands out a JSON value that a front end has made, such as help or what a search found, for a caller (nil: the zero
// Caller) within the token budget, in the lite form: the value's bytes where they fit, else a probe whose token fetches
// it. d may be nil. The value must not be changed afterwards, as it may be kept. Nothing but the budget makes a probe of it. Errors
// are in the Answer: budget_too_small, limit_exceeded where it does not fit and there is no store, internal for what is no
// JSON.
func (e *Engine) Deliver(ctx context.Context, value []byte, d *Delivery, caller *Caller) (a *Answer) {
	s := e.newExchange(caller)
	defer s.conclude(ctx, KindDeliver, &a)
	ctx = s.begins(ctx, KindDeliver, nil, 0)
	if d != nil && d.MaxTotalTokens != 0 {
		if f := s.apply(&budgetRequest{MaxTotalTokens: &d.MaxTotalTokens}, nil, ""); f != nil {
			return s.failure(ctx, f)
		}
	}
	s.lite, s.trace = true, "none"
	compact, err := schema.Compact(value)
	if err != nil {
		return s.failure(ctx, fault.New(fault.Internal, "a defect of onecall: what was to be answered is not JSON"))
	}
	return (&draft{exchange: s, step: -1, index: -1, member: "result", result: compact}).bareAnswer(ctx)
}
