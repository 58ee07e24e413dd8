package mcp

import (
	"context"
	"fmt"
	"runtime/debug"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// call is one call of a tool.
type call struct {
	ctx     context.Context
	face    *face
	session *session // nil: the client has none
	request *sdk.CallToolRequest
	args    []byte // a JSON object where the client keeps to the protocol
	caller  *chain.Caller
	told    *teller  // nil: the client wants to be told nothing
	spends  *spender // nil: nothing is added up
}

// handler answers the calls of a tool, as the tool is at the moment of the call.
func (f *face) handler(name string, sessions bool) sdk.ToolHandler {
	return func(ctx context.Context, req *sdk.CallToolRequest) (result *sdk.CallToolResult, err error) {
		c := &call{ctx: ctx, face: f, request: req, args: req.Params.Arguments}
		if len(c.args) == 0 || string(c.args) == "null" {
			c.args = []byte("{}")
		}
		if sessions {
			c.session = f.session(req.Session)
		}
		c.caller = &chain.Caller{ID: f.access.ID, Functions: f.view}
		c.beginSpending()
		defer func() { c.spends.end(ctx, result) }()
		defer func() {
			if v := recover(); v != nil {
				f.server.o.Log.Error("a call panicked", "tool", name, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
				result, err = c.refuse(fault.New(fault.Internal, "a defect of onecall stopped this call")), nil
			}
		}()
		t := f.tool(name)
		if t == nil {
			return c.refuse(fault.New(fault.UnknownFunction, "the tool %s is not there any more: list the tools again", name)), nil
		}
		running, end, refused := f.server.calls.start(ctx)
		if refused != nil {
			return c.refuse(refused), nil
		}
		defer end()
		if c.session != nil {
			var stop func()
			running, stop = c.session.within(running)
			defer stop()
			running = steps.WithSession(running, &c.session.kept)
		}
		c.ctx = running
		c.told = c.listen()
		defer c.told.end()
		return t.answer(c), nil
	}
}

// tool is a tool of the face by its name; nil where it is gone.
func (f *face) tool(name string) *tool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.offered == nil {
		return nil
	}
	return f.offered.byName[name]
}

// give makes a tool's result of an answer: one text block of compact JSON, and no copy of it.
func (c *call) give(a *chain.Answer) *sdk.CallToolResult {
	c.spends.warned(a)
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(a.JSON)}}, IsError: !a.OK}
}

// run answers a chain, or a fetch of an earlier large result.
func (c *call) run(request []byte) *sdk.CallToolResult {
	return c.give(c.face.server.o.Engine.Run(c.context(request), request, c.caller))
}

// call calls one function.
func (c *call) call(one *chain.Call) *sdk.CallToolResult {
	return c.give(c.face.server.o.Engine.Call(c.context(one.Args), one, c.caller))
}

// context is that in which a request runs.
func (c *call) context(request []byte) context.Context {
	if make := c.face.server.o.Context; make != nil {
		return make(c.ctx, request)
	}
	return c.ctx
}

// limit is the least of a bound of our own and what the answer may have, in tokens; asked 0: the request says nothing.
func (c *call) limit(own, asked int) int {
	for _, bound := range []int{asked, c.face.server.o.MaxTotalTokens, c.caller.MaxTotalTokens} {
		if bound > 0 {
			own = min(own, bound)
		}
	}
	return own
}

// deliver answers a value that onecall has made, such as what a search has found: its bytes alone, a probe where they do
// not fit. whole tells whether the client has got all of it.
func (c *call) deliver(value []byte, tokens int) (result *sdk.CallToolResult, whole bool) {
	answer := c.face.server.o.Engine.Deliver(c.ctx, value, &chain.Delivery{MaxTotalTokens: tokens}, c.caller)
	return c.give(answer), answer.OK && len(answer.JSON) == len(value)
}

// refuse answers what is wrong with a call.
func (c *call) refuse(faults ...*fault.Error) *sdk.CallToolResult {
	return c.give(c.face.server.o.Engine.Refuse(c.ctx, faults, c.caller))
}
