package mcp

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// call is one call of a tool.
type call struct {
	ctx     context.Context
	face    *face
	now     *generation // that it is served with
	view    *steps.View // what the caller may use
	session *session    // nil: the client has none
	request *sdk.CallToolRequest
	args    []byte // a JSON object where the client keeps to the protocol
	caller  *chain.Caller
	told    *teller  // nil: the client wants to be told nothing
	spends  *spender // nil: nothing is added up

	function *steps.Entry // that a flat tool stands for; nil: it stands for none, or it is not known yet
}

// handler answers the calls of a tool, as the tool is at the moment of the call.
func (f *face) handler(name string, sessions bool) sdk.ToolHandler {
	return func(ctx context.Context, req *sdk.CallToolRequest) (result *sdk.CallToolResult, err error) {
		now, ended := f.server.begin()
		defer ended()
		ctx, id := identified(ctx, now.Engine, req.Extra)
		c := &call{ctx: ctx, face: f, now: now, request: req, args: req.Params.Arguments}
		if len(c.args) == 0 || string(c.args) == "null" {
			c.args = []byte("{}")
		}
		c.session = f.sessionOf(ctx, req, sessions)
		c.view = c.links().viewIn(ctx, f.scene(now))
		c.caller = &chain.Caller{ID: f.server.callerOf(req.Extra, c.session).ID, Run: id, Rights: rightsOf(req.Extra), Functions: c.view}
		defer func() { c.spends.end(ctx, result) }()
		defer func() {
			if v := recover(); v != nil {
				now.Log.ErrorContext(ctx, "a call panicked", "tool", name, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
				result, err = c.refuse(fault.New(fault.Internal, "a defect of onecall stopped this call")), nil
			}
		}()
		c.beginSpending()
		t := c.tool(name)
		if t == nil {
			return c.refuse(fault.New(fault.UnknownFunction, "the tool %s is not there any more: list the tools again", name)), nil
		}
		leave, refused := c.enter()
		if refused != nil {
			return c.refuse(refused), nil
		}
		defer leave()
		// It may have waited since it was let in, and what it begins with may be what is served after a reload. From here on it is one
		// of those that end with their caller's rights.
		if refused := f.server.revoked(ctx, req.Extra); refused != nil {
			return nil, f.told(refused)
		}
		c.told = c.listen()
		defer c.told.end()
		return t.answer(c), nil
	}
}

// rightsOf are the rights of whom a token names, to which its results are bound. Without tokens all of a door have the same, and
// what is kept over stdio is for the command line too.
func rightsOf(extra *sdk.RequestExtra) budget.Rights {
	v := visitorOf(extra)
	if v == nil {
		return budget.Rights{}
	}
	r := settled(v.Rights)
	return budget.Rights{Level: int(r.Tier), Scope: r.Functions}
}

// callsEach is how many calls of the caller may run at once; -1: any number.
func (c *call) callsEach() int {
	if visitorOf(c.request.Extra) == nil {
		return cmp.Or(c.now.Limits.Calls, DefaultCalls)
	}
	return cmp.Or(c.now.Limits.Calls, DefaultCallerCalls)
}

// enter gives the context that a call runs in, which ends with the server's patience and with the client's session.
func (c *call) enter() (leave func(), refused *fault.Error) {
	s := c.face.server
	allowed, refused := s.callers.begin(c.caller.ID, c.callsEach())
	if refused != nil {
		s.refused(c.ctx, RefusedRate, &steps.Caller{ID: c.caller.ID})
		return nil, refused
	}
	running, end, refused := s.calls.start(c.ctx)
	if refused != nil {
		allowed()
		return nil, refused
	}
	stop, forget := func() {}, func() {}
	if c.session != nil {
		running, stop = c.session.within(running)
		running = steps.WithSession(running, c.session.kept)
	}
	if v := visitorFor(c.ctx, c.request.Extra); v != nil {
		running, forget = s.permitted(running, v)
	}
	c.ctx = c.traced(running)
	return func() {
		forget()
		stop()
		end()
		allowed()
	}, nil
}

// traced gives a call's context what traces need: what the message says of its client's trace wins over the header of HTTP.
func (c *call) traced(ctx context.Context) context.Context {
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

// tool is a tool that the client has, by its name; nil where it is gone.
func (c *call) tool(name string) *tool { return c.face.offerOf(c.links()).byName[name] }

// give makes a tool's result of an answer: one text block of compact JSON, and no copy of it.
func (c *call) give(a *chain.Answer) *sdk.CallToolResult {
	c.spends.warned(a)
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(a.JSON)}}, IsError: !a.OK}
}

// run answers a chain, or a fetch of an earlier large result.
func (c *call) run(request []byte) *sdk.CallToolResult {
	return c.give(c.now.Engine.Run(c.context(request), request, c.caller))
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

// deliver answers a value that onecall has made, such as what a search has found: its bytes alone, a probe where they do
// not fit. whole tells whether the client has got all of it.
func (c *call) deliver(value []byte, tokens int) (result *sdk.CallToolResult, whole bool) {
	answer := c.now.Engine.Deliver(c.ctx, value, &chain.Delivery{MaxTotalTokens: tokens}, c.caller)
	return c.give(answer), answer.OK && len(answer.JSON) == len(value)
}

// refuse answers what is wrong with a call.
func (c *call) refuse(faults ...*fault.Error) *sdk.CallToolResult {
	return c.give(c.now.Engine.RefuseCall(c.ctx, c.function, faults, c.caller))
}
