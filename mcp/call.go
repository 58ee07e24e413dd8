package mcp

import (
	"context"
	"fmt"
	"runtime/debug"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// call is one call of a tool.
type call struct {
	ctx      context.Context
	toolset  *toolset
	now      *generation // that it is served with
	view     *steps.View // what the caller may use
	of       *transport.Request
	session  *session // nil: the client has none
	own      *variant // what the client sees for itself; nil: what all see
	request  *sdk.CallToolRequest
	args     []byte // a JSON object if the client keeps to the protocol
	caller   *chain.Caller
	reporter *reporter // nil: the client wants to be told nothing
	spends   *spender  // nil: nothing is added up
	asksBack bool      // the client's user is asked by the result, and the request then sent again

	function *steps.Entry // that a flat tool stands for; nil: it stands for none, or it is not known yet
}

// handler answers the calls of a tool, as the tool is at the moment of the call.
func (f *toolset) handler(name string) sdk.ToolHandler {
	return func(ctx context.Context, req *sdk.CallToolRequest) (result *sdk.CallToolResult, err error) {
		now, of := ctx.Value(generationKey{}).(*generation), transport.RequestIn(ctx)
		ctx, id := now.Engine.Identify(ctx, of.Run)
		if of.Run != "" {
			id = "" // the header of the response names it: a failure need not
		}
		c := &call{ctx: ctx, toolset: f, now: now, of: of, session: sessionOf(of), own: f.shared, request: req, args: req.Params.Arguments}
		if c.session != nil && c.session.own != nil {
			c.own = c.session.own
		}
		if len(c.args) == 0 || string(c.args) == "null" {
			c.args = []byte("{}")
		}
		shown := f.snapshotOf(now)
		if c.view = shown.viewIn(ctx); c.own != nil {
			c.view = c.own.viewIn(ctx, shown)
		}
		c.caller = &chain.Caller{ID: of.Caller.ID, Run: id, Functions: c.view}
		if of.Token { // without tokens all callers have the same rights, and what is kept over stdio is for the command line too
			c.caller.Rights = budget.Rights{Level: int(of.Caller.Tier), Scope: of.Caller.Functions}
		}
		if c.session != nil && now.SessionTokens > 0 {
			c.beginSpending()
			defer func() { c.spends.end(ctx, result) }()
		}
		defer func() {
			if v := recover(); v != nil {
				now.Log.ErrorContext(ctx, "a call panicked", "tool", name, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
				result, err = c.refuse(fault.New(fault.Internal, "a defect of onecall stopped this call")), nil
			}
		}()
		t := f.offerOf(c.own).byName[name]
		if t == nil {
			return c.refuse(fault.New(fault.UnknownFunction, "the tool %s is not there any more: list the tools again", name)), nil
		}
		running, leave, refused := of.Start(ctx)
		if refused != nil {
			return c.refuse(refused), nil
		}
		defer leave()
		c.ctx = c.traced(running)
		if refused := c.mayAsk(); refused != nil {
			return c.refuse(refused), nil
		}
		if refused := transport.Revoked(c.ctx); refused != nil { // nothing of it was done yet
			return nil, refused
		}
		if c.reporter = c.listen(); c.reporter != nil {
			defer c.reporter.end()
		}
		return t.answer(c), nil
	}
}

// traced gives a call's context what the session keeps, and what traces need: what the message says of its client's trace wins
// over the header of HTTP.
func (c *call) traced(ctx context.Context) context.Context {
	if c.session != nil {
		ctx = steps.WithSession(ctx, c.session.kept)
	}
	if c.now.Trace == nil {
		return ctx
	}
	said := func(name string) string {
		if text, ok := c.request.Params.Meta[name].(string); ok {
			return text
		}
		if c.request.Extra != nil {
			return c.request.Extra.Header.Get(name)
		}
		return ""
	}
	return c.now.Trace(ctx, c.request.Params.Name, said("traceparent"), said("tracestate"))
}

// give makes a tool's result of an answer: one text block of compact JSON, and no copy of it. What waits for approval is a question
// if the client's user can be asked.
func (c *call) give(a *chain.Answer) *sdk.CallToolResult {
	if result := c.question(a); result != nil {
		return result
	}
	if c.spends != nil && a.Warned { // in its lite form an answer does not warn: the next one is to
		c.spends.warns = true
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(a.JSON)}}, IsError: !a.OK}
}

// run answers a chain, or a fetch of an earlier large result, which the arguments are.
func (c *call) run() *sdk.CallToolResult {
	return c.give(c.now.Engine.Run(c.context(c.args), c.args, c.caller))
}

// call calls one function.
func (c *call) call(one *chain.Call) *sdk.CallToolResult {
	return c.give(c.now.Engine.Call(c.context(one.Args), one, c.caller))
}

// context is that in which a request runs.
func (c *call) context(request []byte) context.Context {
	if make := c.now.Context; make != nil {
		return make(c.ctx, request)
	}
	return c.ctx
}

// limit is the least of a bound of our own and what the answer may have, in tokens; asked 0: the request says nothing.
func (c *call) limit(own, asked int) int {
	for _, bound := range []int{asked, c.now.MaxTotalTokens, c.caller.MaxTotalTokens} {
		if bound > 0 {
			own = min(own, bound)
		}
	}
	return own
}

// deliver answers a value that onecall has made, such as what a search has found: its bytes alone, a probe if they do
// not fit. whole reports whether the client has got all of it.
func (c *call) deliver(value []byte, tokens int) (result *sdk.CallToolResult, whole bool) {
	answer := c.now.Engine.Deliver(c.ctx, value, &chain.Delivery{MaxTotalTokens: tokens}, c.caller)
	return c.give(answer), answer.OK && len(answer.JSON) == len(value)
}

// refuse answers what is wrong with a call.
func (c *call) refuse(faults ...*fault.Error) *sdk.CallToolResult {
	return c.give(c.now.Engine.RefuseCall(c.ctx, c.function, faults, c.caller))
}
