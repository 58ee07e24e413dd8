package chain

import (
	"context"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// Call says which function is called, with what.
type Call struct {
	Function string // resolved in the caller's view as a step's fn is
	Args     []byte // a JSON object, taken literally: nothing in it is a reference. nil: {}

	// At is the JSON Pointer of the arguments in the caller's request, "" where they are the request: faults name places
	// under it. A fault that lies in no argument has no place.
	At string

	Verify         bool  // no lean form of a write's result
	Lite           *bool // nil: as Options.Lite; Override.Lite wins over both
	MaxTotalTokens int   // of the answer; it can only lower the server's. 0: the server's
}

// Call calls one function for a caller (nil: the zero Caller) and answers it as Run answers a chain of that one step: the
// same checks, limits, probe and lean form, but no trace of steps and no step numbers. What is wrong with the arguments is
// told all at once, with the function's inputSchema: the error's code is that of the first fault, and `faults` has all
// where there are more than one. Arguments that hold a continuation token of onecall (TokenPrefix of package budget), at
// their top or in `params`, are a fetch: nothing is called then, whatever else they hold. Of Caller.Override, Input, Set
// and Trace have no meaning here.
func (e *Engine) Call(ctx context.Context, c *Call, caller *Caller) (a *Answer) {
	s := e.newExchange(caller)
	s.single = c
	s.override.Input, s.override.Set, s.override.Trace = nil, nil, ""
	_ = s.apply(nil, c.Lite, "none") // for what fails before it is decoded
	defer s.conclude(ctx, KindCall, &a)
	return s.carryOut(ctx, c.Args)
}

// argsOfCall is where the one step of a call has its arguments.
const argsOfCall = "/steps/0/args"

// decodeCall makes the request of one step, or the fetch, that a call is.
func (s *exchange) decodeCall() (*request, *faultList) {
	c := s.single
	var faults faultList
	r := &request{Verify: c.Verify, Lite: c.Lite, Trace: "none", Steps: []step{{Fn: c.Function, literal: true}}}
	if c.MaxTotalTokens != 0 {
		r.Budget = &budgetRequest{MaxTotalTokens: &c.MaxTotalTokens}
	}
	if c.Function == "" {
		faults.add(fault.New(fault.UnknownFunction, "which function? Its name is missing"))
	}
	r.text = c.text([]byte("{}"))
	if len(c.Args) == 0 {
		return r, &faults
	}
	args, f := compactJSON(c.Args, s.o.MaxRequestBytes)
	if f == nil && args[0] != '{' {
		f = fault.New(fault.BadArguments, "the arguments must be a JSON object%s", insteadOf("object", gjson.ParseBytes(args)))
	}
	if f != nil {
		faults.add(f.Under(argsOfCall))
		r.Steps[0].argsBroken = true
		return r, &faults
	}
	if at, holder, found := findToken(gjson.ParseBytes(args)); found && strings.HasPrefix(holder.Get(tokenField).Str, budget.TokenPrefix) {
		d := &decoder{}
		return &request{fetch: d.fetch(holder, c.At+at)}, &d.faults
	}
	r.Steps[0].Args = args
	r.stepsRaw = c.Function + string(args)
	r.text = c.text(args)
	return r, &faults
}

// singleText is the chain that makes the call of the request; "": it cannot be made.
func (s *exchange) singleText() string {
	args := []byte("{}")
	if len(s.single.Args) > 0 {
		var f *fault.Error
		if args, f = compactJSON(s.single.Args, s.o.MaxRequestBytes); f != nil || args[0] != '{' {
			return ""
		}
	}
	return s.single.text(args)
}

// text is the chain that makes the call, for whoever goes on with it.
func (c *Call) text(args []byte) string {
	w := &writer{b: []byte(`{"steps":[{`)}
	w.text("fn", c.Function)
	w.raw("args", refs.Literal(args))
	w.b = append(w.b, "}]}"...)
	return string(w.b)
}

// refuseCall answers a call that cannot be made.
func (s *exchange) refuseCall(ctx context.Context, p *plan, list []*fault.Error, more int) *Answer {
	d := &draft{exchange: s, step: -1, index: -1}
	if p != nil && len(p.steps) > 0 {
		d.failed = p.steps[0].callee()
	}
	d.blame(list[0]) // for what it teaches
	placed := make([]*fault.Error, len(list))
	for i, f := range list {
		placed[i] = s.placed(f)
	}
	return d.refuse(ctx, placed, more)
}

// Refuse answers a request that a front end could not make a chain or a call of: what is wrong with it, within the token budget.
// One fault is the answer's error; of several the first gives the code, and all are told. Their places stay as they are.
func (e *Engine) Refuse(ctx context.Context, faults []*fault.Error, caller *Caller) *Answer {
	return e.RefuseCall(ctx, nil, faults, caller)
}

// RefuseCall does so for the call of a function, and tells what it takes where that helps; nil: of none.
func (e *Engine) RefuseCall(ctx context.Context, function *steps.Entry, faults []*fault.Error, caller *Caller) (a *Answer) {
	s := e.newExchange(caller)
	s.single = &Call{}
	defer s.conclude(ctx, KindRefuse, &a)
	ctx = s.begins(ctx, KindRefuse, nil, 0)
	if len(faults) == 0 {
		faults = []*fault.Error{fault.New(fault.Internal, "a defect of onecall: a request was refused without a fault")}
	}
	d := &draft{exchange: s, step: -1, index: -1, failed: function}
	d.teaches = teaches(faults[0].Under(argsOfCall))
	return d.refuse(ctx, faults, 0)
}

// refuse answers faults whose places the caller knows: the error is the first of them, or counts them.
func (d *draft) refuse(ctx context.Context, list []*fault.Error, more int) *Answer {
	d.err = list[0]
	if n := len(list) + more; n > 1 {
		d.err = d.err.Under("") // a copy
		d.err.Message, d.err.Available, d.err.Nearest = itoa(n)+" faults", nil, nil
		d.faults, d.moreFaults = list, more
	}
	a := d.answer(ctx)
	a.Faults = list
	return a
}

// placed gives the fault of a single call the place that its caller knows: in the arguments, or none. Those of a chain
// stay as they are.
func (s *exchange) placed(f *fault.Error) *fault.Error {
	if s.single == nil {
		return f
	}
	own := f.Under("")
	own.Line, own.Column = 0, 0 // they would be those of the arguments
	if inArgs, ok := strings.CutPrefix(f.At, argsOfCall); ok {
		own.At = s.single.At + inArgs
	} else if strings.HasPrefix(f.At, "/steps/0") || strings.HasPrefix(f.At, "/return") {
		own.At = ""
	}
	return own
}
