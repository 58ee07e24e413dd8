package mcp

import (
	"context"
	"errors"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/chain"
)

// maxAsked bounds, in bytes, the calls that a person is shown at once: more are answered to the caller instead, since what is
// approved must have been seen whole.
const maxAsked = 8 << 10

var errNotAsked = errors.New("nobody was asked")

// approver asks the client's user for approval (elicitation of MCP 2025-06-18 to 2025-11-25); nil: the client cannot ask. Clients of
// later versions get the answer that waits for approval.
func approver(ctx context.Context, session *sdk.ServerSession) func(context.Context, []chain.ApprovalCall) (bool, error) {
	if session == nil {
		return nil
	}
	said := session.InitializeParams()
	if said == nil || said.Capabilities == nil || said.Capabilities.Elicitation == nil || said.Capabilities.Elicitation.Form == nil && said.Capabilities.Elicitation.URL != nil {
		return nil
	}
	return func(until context.Context, calls []chain.ApprovalCall) (bool, error) {
		text, ok := asked(calls)
		if !ok {
			return false, errNotAsked
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(until, cancel)()
		answer, err := session.Elicit(ctx, &sdk.ElicitParams{Message: text, RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}})
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

// asked is the question; false: it would be too long.
func asked(calls []chain.ApprovalCall) (string, bool) {
	var b strings.Builder
	b.WriteString("Approve these calls? Each is made once, exactly as it stands here.\n")
	for i := range calls {
		c := &calls[i]
		b.WriteString("\n" + c.Function + " (" + c.Effect.String() + ", step " + c.Place + ") " + string(c.Args))
		if c.Undo != nil {
			b.WriteString("\n  undo: " + string(c.Undo))
		}
		if b.Len() > maxAsked {
			return "", false
		}
	}
	return b.String(), true
}
