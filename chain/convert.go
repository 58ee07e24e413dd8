package chain

import (
	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// Mention is a function that a request names.
type Mention struct {
	Function string // its name as written in the request
	At       string // JSON Pointer of the name
}

// Mentions has the functions that a request names, whether or not they exist.
type Mentions struct {
	Functions []Mention
	// Resumes reports that the request continues an earlier run, which calls functions that the request need not name.
	Resumes bool
}

// FindMentions returns the functions that a request names: in steps, in inline chains, in steps that replace others, and in undo. If there
// are faults, the list may be incomplete.
func FindMentions(text []byte) (*Mentions, []*fault.Error) {
	found, faults := plan.FindMentions(text)
	m := &Mentions{Resumes: found.Resumes}
	for _, mention := range found.Functions {
		m.Functions = append(m.Functions, Mention(mention))
	}
	return m, faults
}

// Locate sets the line and column of each fault in list that has none; text is the chain's text. The position is that of the value at the
// fault's JSON Pointer (At) or, if that does not exist, of the innermost enclosing value. A fault with the cause fault.ErrUnknownKey gets
// the position of its key. Locate does nothing if text is not JSON.
func Locate(text []byte, list []*fault.Error) { plan.Locate(text, list) }

// Param turns a literal among the arguments of a step into a param of the saved chain.
type Param struct {
	Path string // the step by number or id, and the path in its args: "0.query", "make.labels.0"
	Name string // the name of the param
}

// SaveAs returns the text of a saved chain, for a file. The chain reads the literals at the places of params from its input; they become
// the defaults of the params. SaveAs returns a bad_request fault for each param that cannot be used; for a place that does not exist, the
// fault lists what exists there.
func SaveAs(text []byte, params []Param) ([]byte, []*fault.Error) {
	list := make([]plan.Param, len(params))
	for i, p := range params {
		list[i] = plan.Param(p)
	}
	return plan.SaveAs(text, list)
}

// FetchFields returns the names of the fields of a fetch.
func FetchFields() []string { return plan.FetchFields() }

// ApprovalCall is a call that waits for approval.
type ApprovalCall struct {
	StepPath string // the path of its step, as in writes: 3, 3[7], 3[7].1
	ID       string // the id of its step; "": the step has none
	Function string
	Effect   steps.Effect
	Args     []byte // the arguments as sent, with digests in place of secrets
	Undo     []byte // {"fn","args"} of the call that undoes it, complete except for $result; nil: none
	// Flows are the ways of values that flow rules ask about, in words; nil: they ask about none.
	Flows []string
}

// JSON returns the call as answers and Waiting show it.
func (c *ApprovalCall) JSON() []byte {
	w := &rawjson.Writer{}
	facts.WriteCall(w, &facts.WaitingCall{StepPath: c.StepPath, ID: c.ID, Function: c.Function, Effect: c.Effect, Args: c.Args, Undo: c.Undo,
		Flows: c.Flows})
	return w.B
}

// approvalCalls returns calls that wait for approval as front ends see them.
func approvalCalls(calls []facts.WaitingCall) []ApprovalCall {
	list := make([]ApprovalCall, len(calls))
	for i, c := range calls {
		list[i] = ApprovalCall{StepPath: c.StepPath, ID: c.ID, Function: c.Function, Effect: c.Effect, Args: c.Args, Undo: c.Undo,
			Flows: c.Flows}
	}
	return list
}
