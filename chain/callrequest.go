package chain

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/refs"
)

// callRequest is a call of one function.
type callRequest struct {
	Function string // the function's name
	Args     []byte // a JSON object, taken literally, without references. nil: {}
	At       string // the JSON Pointer of the arguments in the caller's request; "": they are the request

	Verify         bool  // the whole result of a write, never its lean form
	Lite           *bool // nil: as the server says
	MaxTotalTokens int   // the token limit of the answer; 0: the server's
}

// argsOfCall is the JSON Pointer of a single call's arguments.
const argsOfCall = "/steps/0/args"

// decodeCall returns the request that a call makes: one step, or a fetch.
func decodeCall(c *callRequest, maxBytes int64) (*request, *faultList) {
	var faults faultList
	r := &request{Verify: c.Verify, Lite: c.Lite, Trace: "none", Steps: []step{{Fn: c.Function, literal: true}}}
	if c.MaxTotalTokens != 0 {
		r.Budget = &budgetRequest{MaxTotalTokens: &c.MaxTotalTokens}
	}
	if c.Function == "" {
		faults.add(fault.New(fault.UnknownFunction, "which function? Its name is missing"))
	}
	r.text = callText(c.Function, []byte("{}"))
	if len(c.Args) == 0 {
		return r, &faults
	}
	args, f := compactJSON(c.Args, maxBytes)
	if f == nil && args[0] != '{' {
		f = fault.New(fault.BadArguments, "the arguments must be a JSON object%s", insteadOf("object", gjson.ParseBytes(args)))
	}
	if f != nil {
		faults.add(f.Under(argsOfCall))
		r.Steps[0].argsBroken = true
		return r, &faults
	}
	if at, holder, ok := findToken(gjson.ParseBytes(args)); ok && strings.HasPrefix(holder.Get(tokenField).Str, budget.TokenPrefix) {
		d := &decoder{requestRules: &requestRules{}}
		return &request{fetch: d.decodeFetch(holder, c.At+at)}, &d.faults
	}
	r.Steps[0].Args = args
	r.stepsRaw = c.Function + string(args) // for the hash of the plan
	r.text = callText(c.Function, args)
	return r, &faults
}

// text returns the chain that makes the call, or "" if it cannot be made.
func (c *callRequest) text(maxBytes int64) string {
	args := []byte("{}")
	if len(c.Args) > 0 {
		var f *fault.Error
		if args, f = compactJSON(c.Args, maxBytes); f != nil || args[0] != '{' {
			return ""
		}
	}
	return callText(c.Function, args)
}

// callText returns the chain that makes a call of a function, for a resume.
func callText(function string, args []byte) string {
	w := &rawjson.Writer{B: []byte(`{"steps":[{`)}
	w.Text("fn", function)
	w.Raw("args", refs.Literal(args))
	w.B = append(w.B, "}]}"...)
	return string(w.B)
}
