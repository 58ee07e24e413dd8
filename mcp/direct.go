package mcp

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// Direct implements transport.Handler: builtin tools bypass the SDK if clients see nothing else. Clients that can ask their user,
// accept tasks or read log messages need more than an answer, so the SDK serves them.
func (h handler) Direct(caller *steps.Caller, target any, n *transport.Session, tool string) transport.DirectCall {
	if n != nil {
		target = n.Target // chosen at the start of the session
	}
	if target != SurfaceChain || !isBuiltin(tool) {
		return nil
	}
	if n != nil && (n.SDK.InitializeParams() == nil || asksUser(n.SDK) || declaresTasks(n.SDK, nil) || n.HandlerState.(*session).wantsLogs()) {
		return nil
	}
	f := h.s.toolset(caller.Rights, SurfaceChain)
	if !f.shows(tool) {
		return nil
	}
	return func(ctx context.Context, r *sdk.CallToolRequest) (json.RawMessage, error) {
		answer := f.answerStateless
		if n != nil {
			answer = f.answerStateful
		}
		result, err := answer(ctx, "tools/call", r)
		if err != nil {
			return nil, err
		}
		return f.encodeResult(result, n != nil)
	}
}

// serverInfoMeta returns the member _meta that every result has since MCP 2026-07-28, which names the server: its key and value as JSON.
func (o *Options) serverInfoMeta() []byte {
	meta := sdk.Meta{sdk.MetaKeyServerInfo: &sdk.Implementation{Name: o.Name, Version: o.Version}}
	return append([]byte(`"_meta":`), marshal(meta)...)
}

// directHandler returns a handler of tool calls with the same middleware that the SDK's server has.
func (f *toolset) directHandler(sessions bool) sdk.MethodHandler {
	return f.server.transport.Receive(sessions)(f.prepare(sessions)(f.handle))
}

// handle answers the call of a tool.
func (f *toolset) handle(ctx context.Context, _ string, req sdk.Request) (sdk.Result, error) {
	r := req.(*sdk.CallToolRequest)
	return f.handler(r.Params.Name)(ctx, r)
}

// encodeResult encodes the result of a builtin tool, which is one text, and blocks after it. Any other result is an internal error.
func (f *toolset) encodeResult(result sdk.Result, sessions bool) (json.RawMessage, error) {
	toolResult, ok := result.(*sdk.CallToolResult)
	var text *sdk.TextContent
	if ok && len(toolResult.Content) > 0 && toolResult.StructuredContent == nil && len(toolResult.Meta) == 0 {
		text, _ = toolResult.Content[0].(*sdk.TextContent)
	}
	if text == nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "a defect of onecall: the answer does not begin with a text"}
	}
	out := make([]byte, 0, len(text.Text)+len(text.Text)/8+256)
	out = append(out, '{')
	if !sessions {
		out = append(append(out, f.serverInfo...), ',')
	}
	out = append(out, `"content":[{"type":"text","text":`...)
	out = append(gjson.AppendJSONString(out, text.Text), '}')
	for _, block := range toolResult.Content[1:] {
		encoded, err := block.MarshalJSON()
		if err != nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "a defect of onecall: a block cannot be encoded"}
		}
		out = append(append(out, ','), encoded...)
	}
	out = append(out, ']')
	if toolResult.IsError {
		out = append(out, `,"isError":true`...)
	}
	if !sessions {
		out = append(out, `,"resultType":"complete"`...)
	}
	return append(out, '}'), nil
}
