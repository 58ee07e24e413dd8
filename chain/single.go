package chain

import (
	"context"
	"strconv"

	"github.com/onecall-mcp/onecall/chain/internal/answer"
	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Call is a call of one function.
type Call struct {
	Function string // the function's name, resolved in the caller's view like a step's fn
	Args     []byte // a JSON object, taken literally, without references. nil: {}

	// At is the JSON Pointer of the arguments in the caller's request; "": they are the request. The places of faults are relative to the
	// request. A fault outside the arguments has no place.
	At string

	Verify         bool  // the whole result of a write, never its lean form
	Lite           *bool // nil: as Options.Lite; Override.Lite wins over both
	MaxTotalTokens int   // the token limit of the answer, which can only lower the server's; 0: the server's
}

// Call calls one function for a caller (nil: the zero Caller). The answer is that of a chain with this one step, with the same checks,
// limits, probe and lean form, but without a trace and step numbers. All faults of the arguments are reported at once, with the
// function's inputSchema: the error has the code of the first one, and `faults` has all if there are several. Arguments with a
// continuation token of onecall (budget.TokenPrefix), at their top or in `params`, are a fetch; then nothing is called. Input, Set and
// Trace of Caller.Override are ignored.
func (e *Engine) Call(ctx context.Context, c *Call, caller *Caller) (a *Answer) {
	s := e.newRequest(caller)
	call := plan.Call(*c)
	s.single, s.rules.IsCall, s.form.Call, s.form.ArgsAt = &call, true, true, call.At
	s.override.Input, s.override.Set, s.override.Trace, s.rules.Input, s.rules.Settings = nil, nil, "", nil, nil
	_ = s.applyForm(nil, c.Lite, "none") // sets the form of an answer to a failure before decoding
	defer s.finish(ctx, KindCall, &a)
	return s.serve(ctx, c.Args)
}

// Refuse answers with the faults of a request that a front end could not turn into a chain or a call, within the token budget. A single
// fault is the answer's error. Of several, the first gives the code, and all are shown. Their places do not change.
func (e *Engine) Refuse(ctx context.Context, faults []*fault.Error, caller *Caller) *Answer {
	return e.RefuseCall(ctx, nil, faults, caller)
}

// RefuseCall is Refuse for the call of a function, whose schema is shown if that helps; nil: no function.
func (e *Engine) RefuseCall(ctx context.Context, function *steps.Entry, faults []*fault.Error, caller *Caller) (a *Answer) {
	s := e.newRequest(caller)
	s.single, s.form.Call = &plan.Call{}, true
	defer s.finish(ctx, KindRefuse, &a)
	ctx = s.observeBegin(ctx, KindRefuse, nil, 0)
	if len(faults) == 0 {
		faults = []*fault.Error{fault.New(fault.Internal, "a defect of onecall: a request was refused without a fault")}
	}
	c := s.content(facts.NoStep(faults[0]))
	c.Placed, c.Cause.Failed = true, function
	return s.refuseAll(ctx, c, faults, 0)
}

// refuseCall answers a call that cannot be made.
func (s *request) refuseCall(ctx context.Context, p *plan.Plan, list []*fault.Error, more int) *Answer {
	c := s.content(facts.NoStep(list[0]))
	if p != nil && len(p.Steps) > 0 {
		c.Cause.Failed = p.Steps[0].Callee()
	}
	placed := make([]*fault.Error, len(list))
	for i, f := range list {
		placed[i] = s.form.Relocate(f)
	}
	return s.refuseAll(ctx, c, placed, more)
}

// refuseAll answers faults with the caller's own pointers. The error is the only fault, or their number.
func (s *request) refuseAll(ctx context.Context, c *answer.Content, list []*fault.Error, more int) *Answer {
	if n := len(list) + more; n > 1 {
		err := c.Cause.Err.Under("") // a copy
		err.Message, err.Available, err.Nearest = strconv.Itoa(n)+" faults", nil, nil
		c.Cause.Err, c.Faults, c.MoreFaults = err, list, more
	}
	a := s.answer(ctx, c)
	a.Faults = list
	return a
}
