package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/mcp/internal/raw"
	"github.com/onecall-mcp/onecall/steps"
)

// maxQuestion bounds the question that a person is shown, in bytes. A longer one goes back to the caller, because a person must see all
// of what is approved.
const maxQuestion = 8 << 10

// maxWait bounds how long a call waits for the user; after that the caller gets the question, and the run waits.
const maxWait = 10 * time.Minute

var errNotAsked = errors.New("nobody was asked")

// asksUser reports whether a client can ask its user a question, by a form or by a page.
func asksUser(session *sdk.ServerSession) bool {
	form, page := asksBy(session)
	return form || page
}

// asksBy reports how a client can ask its user.
func asksBy(session *sdk.ServerSession) (form, page bool) {
	if session == nil {
		return false, false
	}
	params := session.InitializeParams()
	if params == nil {
		return false, false
	}
	can := capabilitiesFor(params.Capabilities)
	return can.form, can.url
}

// arrangeApproval arranges how the client is asked for approval: by a request during the call, or, since MCP 2026-07-28, by a result that
// asks for input, after which the client repeats its request. A client that shows forms is asked by one; one that only opens pages gets
// that of the console. From a repeated request it takes the user's decision; it fails if the request's state is not valid (denied).
func (c *call) arrangeApproval() *fault.Error {
	asksAgain, f := c.takeDecision() // a user who has just been asked and has not decided is not asked again
	if f != nil {
		return f
	}
	session := c.request.Session
	form, page := asksBy(session)
	if page && !form {
		c.console = c.transportRequest.ConsoleURL()
	}
	switch {
	case !form && c.console == "":
	case !protocol.HasSessions(raw.Version(session, c.request)):
		c.asksByResult = asksAgain
	case form:
		c.caller.Approve = c.whileSigned(approver(c.ctx, session))
	}
	return nil
}

// asks is chain.Caller.Approve.
type asks = func(ctx context.Context, calls []chain.ApprovalCall) (yes bool, err error)

// whileSigned returns ask, whose answer counts only while the caller's plans are signed.
func (c *call) whileSigned(ask asks) asks {
	return func(ctx context.Context, calls []chain.ApprovalCall) (bool, error) {
		yes, err := ask(ctx, calls)
		if yes && !c.isSigned() {
			return false, errNotAsked
		}
		return yes, err
	}
}

// isSigned reports whether the plans of a caller who may only call signed ones are all signed still. The call itself keeps the
// configuration that it began with.
func (c *call) isSigned() bool {
	if !c.caller.PlansOnly {
		return true
	}
	now := c.toolset.view().Registry()
	return !slices.ContainsFunc(c.view.Registry().All(), func(plan *steps.Entry) bool { return !now.Has(plan.Spec().Name) })
}

// takeDecision takes the user's decision from a repeated request. again is false if there is none yet.
func (c *call) takeDecision() (again bool, f *fault.Error) {
	state := c.request.Params.RequestState
	run, byPage := strings.CutPrefix(state, pagePrefix)
	switch {
	case byPage:
		again = c.isAnswered("accept") && c.awaitDecision(run)
		if !c.isSigned() {
			return false, fault.New(fault.Denied, "a plan of yours is not signed any more: nothing was sent")
		}
		c.caller.Decision = &chain.Decision{Run: run, Elsewhere: true}
	case strings.HasPrefix(state, statePrefix):
		if c.caller.Decision, f = c.decisionOf(state); f != nil {
			return false, f
		}
		again = !c.caller.Decision.Undecided
	default:
		return true, nil
	}
	params := *c.request.Params // upstreams must not see the state
	params.RequestState, params.InputResponses = "", nil
	copied := *c.request
	copied.Params, c.request = &params, &copied
	return again, nil
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
	if c.console != "" {
		return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{approvalInput: c.pageQuestion(a.Question)},
			RequestState: pagePrefix + a.Question.Run}
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

// decisionOf reads the user's decision about a form: undecided unless the user accepted or declined. A state without a run and its proof is
// refused (denied).
func (c *call) decisionOf(state string) (*chain.Decision, *fault.Error) {
	run, proof, ok := strings.Cut(strings.TrimPrefix(state, statePrefix), ".")
	if !ok || run == "" || proof == "" {
		return nil, fault.New(fault.Denied, "requestState is not what the call was answered with: send the call again without it")
	}
	yes := c.isAnswered("accept")
	return &chain.Decision{Run: run, Proof: proof, Yes: yes, Undecided: !yes && !c.isAnswered("decline")}, nil
}

// isAnswered reports whether a repeated request says that this is what the user did.
func (c *call) isAnswered(action string) bool {
	answer, ok := c.request.Params.InputResponses[approvalInput].(*sdk.ElicitResult)
	return ok && answer != nil && answer.Action == action
}

func elicitation(text string) *sdk.ElicitParams {
	return &sdk.ElicitParams{Message: text, RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}}
}

// approver returns a function that asks the client's user by a request during the call. The wait ends with ctx, with the function's own
// context, or after maxWait. The function fails with errNotAsked if the question is too long, or was dismissed without a decision.
func approver(ctx context.Context, session *sdk.ServerSession) asks {
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
	for _, group := range byFunction(calls) {
		first, begin, end, indent := group[0], "", ") ", "\n  "
		b.WriteString("\n" + first.Function + " (" + first.Effect.String() + ", ")
		if len(group) > 1 {
			fmt.Fprintf(&b, "%d calls)", len(group))
			begin, end, indent = "\n  ", " ", "\n    "
		}
		for _, c := range group {
			b.WriteString(begin + "step " + c.StepPath + end)
			b.Write(rawjson.Visible(c.Args))
			if c.Undo != nil {
				b.WriteString(indent + "undo: " + string(rawjson.Visible(c.Undo)))
			}
			for _, flow := range c.Flows {
				b.WriteString(indent + "because of " + string(rawjson.Visible([]byte(flow))))
			}
			if b.Len() > maxQuestion {
				return "", false
			}
		}
	}
	return b.String(), true
}

// byFunction groups calls by their functions, in the order of the first call of each.
func byFunction(calls []chain.ApprovalCall) (groups [][]*chain.ApprovalCall) {
	at := map[string]int{}
	for i := range calls {
		c := &calls[i]
		if _, known := at[c.Function]; !known {
			at[c.Function], groups = len(groups), append(groups, nil)
		}
		groups[at[c.Function]] = append(groups[at[c.Function]], c)
	}
	return groups
}
