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

// maxQuestion bounds the question that a person is shown, in bytes. A longer one goes back to the caller, because a person must see all
// of what is approved.
const maxQuestion = 8 << 10

// maxWait bounds how long a call waits for the user; after that the caller gets the question, and the run waits.
const maxWait = 10 * time.Minute

var errNotAsked = errors.New("nobody was asked")

// asksUser reports whether a client can ask its user a question.
func asksUser(session *sdk.ServerSession) bool {
	if session == nil {
		return false
	}
	params := session.InitializeParams()
	// A client that names neither forms nor URLs supports forms.
	return params != nil && params.Capabilities != nil && params.Capabilities.Elicitation != nil &&
		(params.Capabilities.Elicitation.Form != nil || params.Capabilities.Elicitation.URL == nil)
}

// arrangeApproval arranges how the client is asked for approval: by a request during the call, or, since MCP 2026-07-28, by a result that
// asks for input, after which the client repeats its request. From a repeated request it takes the user's decision; it fails if the
// request's state is not valid (denied).
func (c *call) arrangeApproval() *fault.Error {
	if state := c.request.Params.RequestState; strings.HasPrefix(state, statePrefix) {
		decision, f := decisionOf(c.request.Params)
		if f != nil {
			return f
		}
		params := *c.request.Params // upstreams must not see the state
		params.RequestState, params.InputResponses = "", nil
		copied := *c.request
		copied.Params, c.request, c.caller.Decision = &params, &copied, decision
	}
	switch session := c.request.Session; {
	case !asksUser(session):
	case protocol.HasSessions(raw.Version(session, c.request)):
		c.caller.Approve = approver(c.ctx, session)
	default: // a user who has just been asked and has not decided is not asked again
		c.asksByResult = c.caller.Decision == nil || !c.caller.Decision.Undecided
	}
	return nil
}

// statePrefix begins the requestState of onecall's own requests for approval. Any other state is taken for an upstream's.
const statePrefix = "ocq_"

// approvalInput is the key of the question in a result that asks for input.
const approvalInput = "approval"

// question returns a result that asks the client's user; nil: the answer asks nothing, the client is not asked by a result, or the
// question is too long.
func (c *call) question(a *chain.Answer) *sdk.CallToolResult {
	if !c.asksByResult || a.Question == nil {
		return nil
	}
	text, ok := questionText(a.Question.Calls)
	if !ok {
		return nil
	}
	return &sdk.CallToolResult{
		InputRequests: sdk.InputRequestMap{approvalInput: elicitation(text)},
		RequestState:  statePrefix + a.Question.Run + "." + a.Question.Proof,
	}
}

// decisionOf reads the user's decision from a repeated request: undecided unless the user accepted or declined. A state without a run and
// its proof is refused (denied).
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

// approver returns a function that asks the client's user by a request during the call. The wait ends with ctx, with the function's own
// context, or after maxWait. The function fails with errNotAsked if the question is too long, or was dismissed without a decision.
func approver(ctx context.Context, session *sdk.ServerSession) func(context.Context, []chain.ApprovalCall) (bool, error) {
	return func(until context.Context, calls []chain.ApprovalCall) (bool, error) {
		text, ok := questionText(calls)
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
		return false, errNotAsked
	}
}

// questionText returns the question, or false if it is too long. Texts of callers and upstreams cannot imitate one of its lines.
func questionText(calls []chain.ApprovalCall) (string, bool) {
	var b strings.Builder
	b.WriteString("Approve these calls? Each is made once, exactly as it stands here.\n")
	for i := range calls {
		c := &calls[i]
		b.WriteString("\n" + c.Function + " (" + c.Effect.String() + ", step " + c.StepPath + ") " + string(rawjson.Visible(c.Args)))
		if c.Undo != nil {
			b.WriteString("\n  undo: " + string(rawjson.Visible(c.Undo)))
		}
		if b.Len() > maxQuestion {
			return "", false
		}
	}
	return b.String(), true
}
