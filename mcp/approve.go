package mcp

import (
	"context"
	"errors"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/mcp/internal/raw"
)

// maxAsked bounds, in bytes, the calls that a person is shown at once: more are answered to the caller instead, since what is
// approved must have been seen whole.
const maxAsked = 8 << 10

// maxWait bounds the waiting for an answer, during which a call is under way; after that the caller is answered, and the run waits.
const maxWait = 10 * time.Minute

var errNotAsked = errors.New("nobody was asked")

// asksUser reports whether a client can ask its user a question.
func asksUser(session *sdk.ServerSession) bool {
	if session == nil {
		return false
	}
	said := session.InitializeParams()
	return said != nil && said.Capabilities != nil && said.Capabilities.Elicitation != nil &&
		(said.Capabilities.Elicitation.Form != nil || said.Capabilities.Elicitation.URL == nil)
}

// mayAsk has the call's client asked for approval, in the way of its version of MCP: by a request while the call goes on, or from
// 2026-07-28 on by a result that asks for more, after which the client sends its request again.
func (c *call) mayAsk() *fault.Error {
	if state := c.request.Params.RequestState; strings.HasPrefix(state, statePrefix) {
		decision, f := decisionOf(c.request.Params)
		if f != nil {
			return f
		}
		params := *c.request.Params // no upstream is told of it
		params.RequestState, params.InputResponses = "", nil
		own := *c.request
		own.Params, c.request, c.caller.Decision = &params, &own, decision
	}
	switch session := c.request.Session; {
	case !asksUser(session):
	case protocol.HasSessions(raw.Version(session, c.request)):
		c.caller.Approve = approver(c.ctx, session)
	default:
		c.asksBack = c.caller.Decision == nil || !c.caller.Decision.Undecided
	}
	return nil
}

// statePrefix begins the state of a request that an approval was asked for. No upstream's state that is handed on begins so.
const statePrefix = "ocq_"

// approvalInput names the question in a result that asks for more.
const approvalInput = "approval"

// question is a result that asks the client's user; nil: the answer asks nothing, or would not be read whole.
func (c *call) question(a *chain.Answer) *sdk.CallToolResult {
	if !c.asksBack || a.Question == nil {
		return nil
	}
	text, ok := asked(a.Question.Calls)
	if !ok {
		return nil
	}
	return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{approvalInput: elicitation(text)}, RequestState: statePrefix + a.Question.Run + "." + a.Question.Proof}
}

// decisionOf is what a client's user has said, with a request that is sent again.
func decisionOf(params *sdk.CallToolParamsRaw) (*chain.Decision, *fault.Error) {
	run, proof, ok := strings.Cut(strings.TrimPrefix(params.RequestState, statePrefix), ".")
	if !ok || run == "" || proof == "" {
		return nil, fault.New(fault.Denied, "requestState is not what the call was answered with: send the call again without it")
	}
	d := &chain.Decision{Run: run, Proof: proof, Undecided: true}
	if answer, ok := params.InputResponses[approvalInput].(*sdk.ElicitResult); ok && answer != nil {
		d.Yes = answer.Action == "accept"
		d.Undecided = !d.Yes && answer.Action != "decline"
	}
	return d, nil
}

func elicitation(text string) *sdk.ElicitParams {
	return &sdk.ElicitParams{Message: text, RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}}
}

// approver asks the client's user by a request of its own, while the call goes on.
func approver(ctx context.Context, session *sdk.ServerSession) func(context.Context, []chain.ApprovalCall) (bool, error) {
	return func(until context.Context, calls []chain.ApprovalCall) (bool, error) {
		text, ok := asked(calls)
		if !ok {
			return false, errNotAsked
		}
		ctx, cancel := context.WithTimeout(ctx, maxWait)
		defer cancel()
		defer context.AfterFunc(until, cancel)()
		answer, err := session.Elicit(ctx, elicitation(text))
		switch {
		case err != nil:
			return false, err
		case answer.Action == "accept":
			return true, nil
		case answer.Action == "decline":
			return false, nil
		}
		return false, errNotAsked // it was put aside: nobody has decided
	}
}

// asked is the question; false: it would be too long. What callers and upstreams have written cannot be taken for a line of its own.
func asked(calls []chain.ApprovalCall) (string, bool) {
	var b strings.Builder
	b.WriteString("Approve these calls? Each is made once, exactly as it stands here.\n")
	for i := range calls {
		c := &calls[i]
		b.WriteString("\n" + c.Function + " (" + c.Effect.String() + ", step " + c.Place + ") " + string(rawjson.Visible(c.Args)))
		if c.Undo != nil {
			b.WriteString("\n  undo: " + string(rawjson.Visible(c.Undo)))
		}
		if b.Len() > maxAsked {
			return "", false
		}
	}
	return b.String(), true
}
