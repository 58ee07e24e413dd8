package plan

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/decode"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/refs"
)

// Call is a call of one function.
type Call struct {
	Function string // the function's name
	Args     []byte // a JSON object, taken literally, without references. nil: {}
	At       string // the JSON Pointer of the arguments in the caller's request; "": they are the request

	Verify         bool  // the whole result of a write, never its lean form
	Lite           *bool // nil: as the server says
	MaxTotalTokens int   // the token limit of the answer; 0: the server's
}

// DecodeCall returns the request that a call makes: one step, or a fetch.
func DecodeCall(c *Call, maxBytes int64) (*Request, *decode.Faults) {
	var faults decode.Faults
	r := &Request{Verify: c.Verify, Lite: c.Lite, Trace: "none", Steps: []StepRequest{{Fn: c.Function, literal: true}}}
	if c.MaxTotalTokens != 0 {
		r.Budget = &BudgetRequest{MaxTotalTokens: &c.MaxTotalTokens}
	}
	if c.Function == "" {
		faults.Add(fault.New(fault.UnknownFunction, "which function? Its name is missing"))
	}
	r.Text = CallText(c.Function, []byte("{}"))
	if len(c.Args) == 0 {
		return r, &faults
	}
	args, f := CompactJSON(c.Args, maxBytes)
	if f == nil && args[0] != '{' {
		f = fault.New(fault.BadArguments, "the arguments must be a JSON object%s", decode.InsteadOf("object", gjson.ParseBytes(args)))
	}
	if f != nil {
		faults.Add(f.Under(facts.ArgsOfCall))
		r.Steps[0].argsBroken = true
		return r, &faults
	}
	if at, holder, ok := findToken(gjson.ParseBytes(args)); ok && strings.HasPrefix(holder.Get(budget.TokenField).Str, budget.TokenPrefix) {
		d := &decoder{RequestRules: &RequestRules{}}
		return &Request{Fetch: d.decodeFetch(holder, c.At+at)}, &d.Faults
	}
	r.Steps[0].Args = args
	r.stepsRaw = c.Function + string(args) // for the hash of the plan
	r.Text = CallText(c.Function, args)
	return r, &faults
}

// Text returns the chain that makes the call, or "" if it cannot be made.
func (c *Call) Text(maxBytes int64) string {
	args := []byte("{}")
	if len(c.Args) > 0 {
		var f *fault.Error
		if args, f = CompactJSON(c.Args, maxBytes); f != nil || args[0] != '{' {
			return ""
		}
	}
	return CallText(c.Function, args)
}

// CallText returns the chain that makes a call of a function, for a resume.
func CallText(function string, args []byte) string {
	w := &rawjson.Writer{B: []byte(`{"steps":[{`)}
	w.Text("fn", function)
	w.Raw("args", refs.Literal(args))
	w.B = append(w.B, "}]}"...)
	return string(w.B)
}
