package mcp

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// call is one tool call.
type call struct {
	ctx              context.Context
	toolset          *toolset
	now              *generation // configuration that serves it
	view             *steps.View // what the caller may use
	transportRequest *transport.Request
	session          *session    // nil: the client has none
	clientView       *clientView // the client's own view; nil: it sees what all clients see
	request          *sdk.CallToolRequest
	args             []byte // a JSON object, if the client follows the protocol
	caller           *chain.Caller
	reporter         *reporter     // nil: the client wants no notifications
	spending         *callSpending // nil: tokens are not counted
	asksByResult     bool          // the result asks for approval; the client then repeats the request
	console          string        // where the client's user approves calls, since the client opens pages and shows no forms; "": not there

	function *steps.Entry // the function of a flat tool; nil: the tool is not flat, or its function is not known yet
}

// handler returns the handler of a tool by its name; it looks up the tool at each call.
func (f *toolset) handler(name string) sdk.ToolHandler {
	return func(ctx context.Context, req *sdk.CallToolRequest) (result *sdk.CallToolResult, err error) {
		now, from := ctx.Value(generationKey{}).(*generation), transport.RequestIn(ctx)
		ctx, id := now.Engine.Identify(ctx, from.Run)
		if from.Run != "" {
			id = "" // the response header names it
		}
		c := &call{
			ctx: ctx, toolset: f, now: now, transportRequest: from, session: sessionOf(from), clientView: f.viewOf(req.Session),
			request: req, args: req.Params.Arguments,
		}
		if len(c.args) == 0 || string(c.args) == "null" {
			c.args = []byte("{}")
		}
		shown := f.snapshotOf(now)
		if c.view = shown.viewIn(ctx); c.clientView != nil {
			c.view = c.clientView.viewIn(ctx, shown)
		}
		c.caller = f.server.caller(from, now)
		c.caller.Run, c.caller.Functions = id, c.view
		if c.session != nil && now.SessionTokens > 0 {
			c.beginSpending()
			defer func() { c.spending.end(ctx, result) }()
		}
		defer func() {
			if v := recover(); v != nil {
				result, err = c.panicked(name, v), nil
			}
		}()
		t := f.offerOf(c.clientView).byName[name]
		if t == nil {
			return c.refuse(fault.New(fault.UnknownFunction, "the tool %s is not there any more: list the tools again", name)), nil
		}
		running, done, refused := from.Start(ctx)
		if refused != nil {
			return c.refuse(refused), nil
		}
		defer done()
		c.ctx = c.traced(running)
		if refused := c.arrangeApproval(); refused != nil {
			return c.refuse(refused), nil
		}
		if labels := now.Labels; labels != nil {
			c.caller.Labels = labels(c.ctx, c.caller.ID, nil)
		}
		if refused := transport.Revoked(c.ctx); refused != nil { // nothing was done yet
			return nil, refused
		}
		if c.reporter = c.startReporter(); c.reporter != nil {
			defer c.reporter.end()
		}
		return c.converse(t), nil
	}
}

// caller returns the caller of a message, who can follow its own runs.
func (s *Server) caller(from *transport.Request, now *generation) *chain.Caller {
	c := chain.NewCaller(from.Caller, !from.Token) // the command line shares results with stdio
	c.Rights.Credentials = now.Catalog.Credentials(c.Rights.Credentials)
	c.Detach, c.MaxBlockBytes, c.PlansOnly = chain.Detach{Runs: &s.runs, Workers: now.Workers}, now.MaxBlockBytes, from.Caller.Plans
	return c
}

// panicked answers a call of a tool that ended with a panic.
func (c *call) panicked(tool string, v any) *sdk.CallToolResult {
	c.now.Log.ErrorContext(c.ctx, "a call panicked", "tool", tool, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
	return c.refuse(fault.New(fault.Internal, "a defect of onecall stopped this call"))
}

// traced returns the call's context with the session's state and the trace. The trace in the message wins over the HTTP header.
func (c *call) traced(ctx context.Context) context.Context {
	if c.session != nil {
		ctx = steps.WithSession(ctx, c.session.stored)
	}
	if c.now.Trace == nil {
		return ctx
	}
	traceField := func(name string) string {
		if text, ok := c.request.Params.Meta[name].(string); ok {
			return text
		}
		if c.request.Extra != nil {
			return c.request.Extra.Header.Get(name)
		}
		return ""
	}
	return c.now.Trace(ctx, c.request.Params.Name, traceField("traceparent"), traceField("tracestate"))
}

// answer converts an answer to a tool's result: one text block of compact JSON, without a copy as structuredContent, and after it the
// blocks that go with it. An answer that waits for approval becomes a question if the client's user can be asked.
func (c *call) answer(a *chain.Answer) *sdk.CallToolResult {
	if result := c.question(a); result != nil {
		return result
	}
	if c.spending != nil && a.Warned { // a short answer leaves the warning to the next one
		c.spending.warns = true
	}
	if c.spending != nil {
		c.spending.blocks += a.BlockTokens
	}
	content := []sdk.Content{&sdk.TextContent{Text: string(a.JSON)}}
	for _, b := range a.Blocks {
		content = append(content, blockContent(b))
	}
	return &sdk.CallToolResult{Content: content, IsError: !a.OK}
}

// blockContent converts a block to what an MCP client shows.
func blockContent(b *steps.KeptBlock) sdk.Content {
	switch b.Type {
	case "image":
		return &sdk.ImageContent{Data: b.Bytes, MIMEType: b.MIMEType()}
	case "audio":
		return &sdk.AudioContent{Data: b.Bytes, MIMEType: b.MIMEType()}
	}
	uri := cmp.Or(b.URI, "onecall:"+b.Handle) // MCP requires one
	return &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: uri, MIMEType: b.MIMEType(), Blob: b.Bytes}}
}

// run answers a chain, or a fetch of an earlier large result.
func (c *call) run() *sdk.CallToolResult {
	c.caller.TextAsJSON = true
	if offer, ok := c.ctx.Value(taskOfferKey{}).(*taskOffer); ok {
		c.caller.IfHalted = offer.resumes
	}
	detach := &c.caller.Detach
	detach.Hold, detach.MaxHanded, detach.As = c.hold, c.transportRequest.MaxDetached(), c.transportRequest.Caller
	answer := c.untilDecided(func() *chain.Answer { return c.now.Engine.Run(c.context(c.args), c.args, c.caller) })
	if answer.Detached != nil {
		c.offerTask(answer.Detached)
	}
	return c.answer(answer)
}

// hold keeps what the call's run needs to go on after the call (chain.Detach).
func (c *call) hold(ctx context.Context) (held context.Context, release func(), refused *fault.Error) {
	held, end, refused := c.transportRequest.Detach(ctx)
	if refused != nil {
		return nil, nil, refused
	}
	s, now := c.toolset.server, c.now
	s.pin(now)
	return held, func() {
		s.unpin(now)
		end()
	}, nil
}

// call calls one function.
func (c *call) call(request *chain.Call) *sdk.CallToolResult {
	return c.answer(c.untilDecided(func() *chain.Answer { return c.now.Engine.Call(c.context(request.Args), request, c.caller) }))
}

// context returns the context for a request to the engine, for which it remembers what the client sends.
func (c *call) context(request []byte) context.Context {
	if labels := c.now.Labels; labels != nil {
		c.caller.Labels = labels(c.ctx, c.caller.ID, request)
	}
	if withContext := c.now.Context; withContext != nil {
		return withContext(c.ctx, request)
	}
	return c.ctx
}

// limit returns the lowest of value, asked (0: none), the server's token limit and the caller's.
func (c *call) limit(value, asked int) int {
	for _, bound := range []int{asked, c.now.MaxTotalTokens, c.caller.MaxTotalTokens} {
		if bound > 0 {
			value = min(value, bound)
		}
	}
	return value
}

// deliver answers a value that onecall has made: the value itself, or a preview with a continuation token if it exceeds the limit tokens
// (0: the server's). whole reports whether the client gets all of it.
func (c *call) deliver(value []byte, tokens int) (result *sdk.CallToolResult, whole bool) {
	answer := c.now.Engine.Deliver(c.ctx, value, &chain.Delivery{MaxTotalTokens: tokens}, c.caller)
	return c.answer(answer), answer.OK && len(answer.JSON) == len(value)
}

// refuse answers the faults of a call.
func (c *call) refuse(faults ...*fault.Error) *sdk.CallToolResult {
	return c.answer(c.now.Engine.RefuseCall(c.ctx, c.function, faults, c.caller))
}
