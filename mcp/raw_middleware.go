package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/mcp/internal/raw"
	"github.com/onecall-mcp/onecall/mcp/transport"
)

// receiveRaw is the middleware for requests of the client. It answers tools/list and tools/call with raw bytes, and leaves requests for
// other features of upstreams to the client's sessions with those upstreams.
func (f *toolset) receiveRaw(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		ss, ok := req.GetSession().(*sdk.ServerSession)
		if ok && f.surface == SurfaceChain && method == "tools/call" {
			call, err := f.handlerOf(ctx, nil, req, next)
			if err != nil {
				return nil, err
			}
			return call(ctx, method, req)
		}
		if ok && readsApproval(method, req) {
			return raw.Result(raw.Version(ss, req), method, approvalResource)
		}
		if !ok || f.surface == SurfaceChain && method != "tools/list" {
			return next(ctx, method, req)
		}
		v := f.viewOf(ss)
		switch {
		case method == "tools/list":
			return v.list(ctx, f, ss, req, next)
		case method == "tools/call":
			return f.callTool(ctx, v, ss, req, next)
		case v == nil, method == "prompts/get" && f.hasPrompt(req):
			return next(ctx, method, req)
		}
		return v.upstreams.Answer(ctx, method, req, next)
	}
}

// sendRaw is the middleware for messages to the client. If the client has upstream sessions, they send each message, by next or in its
// place.
func (f *toolset) sendRaw(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if ss, ok := req.GetSession().(*sdk.ServerSession); ok {
			if v := f.viewOf(ss); v != nil {
				return v.upstreams.Send(ctx, method, req, next)
			}
		}
		return next(ctx, method, req)
	}
}

// viewOf returns the client's own view, or else the view that it shares with clients without sessions; nil: it sees what all clients see.
func (f *toolset) viewOf(ss *sdk.ServerSession) *clientView {
	if !f.passes() || ss == nil {
		return nil
	}
	if n := f.server.transport.Session(ss); n != nil && n.HandlerState.(*session).view != nil {
		return n.HandlerState.(*session).view
	}
	var capabilities *sdk.ClientCapabilities
	if params := ss.InitializeParams(); params != nil {
		capabilities = params.Capabilities
	}
	return f.sharedView(capabilitiesFor(capabilities))
}

// list answers tools/list in one page. v may be nil.
func (v *clientView) list(
	ctx context.Context, f *toolset, ss *sdk.ServerSession, req sdk.Request, next sdk.MethodHandler,
) (sdk.Result, error) {
	if asked, ok := req.GetParams().(*sdk.ListToolsParams); ok && asked != nil && asked.Cursor != "" {
		return next(ctx, "tools/list", req) // the SDK refuses the cursor
	}
	offered := f.offerOf(nil)
	if v != nil {
		offered = v.upstreams.CurrentTools()
	}
	return raw.Page(raw.Version(ss, req), "tools", json.RawMessage("{}"), offered.listed(showsApps(req)), nil)
}

// verbatimResult receives an upstream's answer to a tool call, without secrets, if the client gets it unchanged.
type verbatimResult struct {
	result json.RawMessage
	err    *jsonrpc.Error
}

type verbatimKey struct{}

// setVerbatim stores an upstream's answer to a tool call, and reports whether the client gets it unchanged. err is the
// error of a call without a result. ctx belongs to the client's request.
func setVerbatim(ctx context.Context, result []byte, err error) bool {
	h, ok := ctx.Value(verbatimKey{}).(*verbatimResult)
	if !ok {
		return false
	}
	if len(result) > 0 {
		h.result = result
		return true
	}
	h.err = upstreamError(err)
	return h.err != nil
}

// callTool answers a tool call: with the upstream's answer if setVerbatim has stored one, else with the result of next. v may be nil.
func (f *toolset) callTool(
	ctx context.Context, v *clientView, ss *sdk.ServerSession, req sdk.Request, next sdk.MethodHandler,
) (sdk.Result, error) {
	h := &verbatimResult{}
	ctx = context.WithValue(ctx, verbatimKey{}, h)
	next, err := f.handlerOf(ctx, v, req, next)
	if err != nil {
		return nil, err
	}
	if v != nil {
		ctx = v.upstreams.Within(ctx, logLevelParams(req))
	}
	result, err := next(ctx, "tools/call", req)
	switch {
	case err != nil:
		return result, err
	case h.err != nil:
		return nil, transport.Verbatim(f.server.clientError(h.err))
	case h.result != nil:
		return raw.Result(raw.Version(ss, req), "tools/call", h.result)
	}
	return result, nil
}

// handlerOf returns the handler of a tool call: next, or the tool itself if it is not listed for all clients. It fails if the client has no
// such tool, even after a wait for its upstreams. v may be nil.
func (f *toolset) handlerOf(ctx context.Context, v *clientView, req sdk.Request, next sdk.MethodHandler) (sdk.MethodHandler, error) {
	call, ok := req.(*sdk.CallToolRequest)
	if !ok {
		return next, nil
	}
	name := call.Params.Name
	if v != nil && f.offerOf(v).byName[name] == nil {
		waiting, end := context.WithTimeout(ctx, listWait)
		v.upstreams.Await(waiting)
		end()
	}
	offered := f.offerOf(v)
	switch {
	case !offered.has(name, req):
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: offered.unknown(name)}
	case f.shows(name):
		return next, nil
	}
	return func(ctx context.Context, method string, _ sdk.Request) (sdk.Result, error) {
		result, err := f.handler(name)(ctx, call)
		if version := raw.Version(call.Session, call); err == nil && version >= protocol.Stateless {
			return typed(version, method, result)
		}
		return result, err
	}, nil
}

// typed returns the result of a tool call with its type, which the SDK adds for the tools that it knows.
func typed(version, method string, result *sdk.CallToolResult) (sdk.Result, error) {
	body := marshal(result)
	if result.InputRequests != nil {
		body = raw.With(body, "resultType", json.RawMessage(`"input_required"`))
	}
	return raw.Result(version, method, body)
}

// otherParams returns the params of a tool call without its arguments; nil: they cannot be encoded.
func otherParams(req *sdk.CallToolRequest) json.RawMessage {
	params := *req.Params
	params.Arguments = nil
	text, err := json.Marshal(&params)
	if err != nil {
		return nil
	}
	return text
}

// logLevelParams returns the params that each call of a chain passes on: the log level that the client wants; nil: it names none.
func logLevelParams(req sdk.Request) json.RawMessage {
	params := req.GetParams()
	if params == nil || reflect.ValueOf(params).IsNil() {
		return nil
	}
	level, ok := params.GetMeta()[metaLogLevel].(string)
	if !ok {
		return nil
	}
	return raw.With(nil, "_meta", raw.With(nil, metaLogLevel, marshal(level)))
}

// clientError returns an error for the client. Errors of upstreams are unchanged except for secrets.
func (s *Server) clientError(err error) *jsonrpc.Error {
	scrubber := s.opts().Scrubber
	coded, ok := fault.As(err)
	var rpcErr *jsonrpc.Error
	if !ok && errors.As(err, &rpcErr) { // not one inside a fault: it may be the SDK's own, for a request that was not sent
		c := *rpcErr
		c.Message, c.Data = scrubber.Text(rpcErr.Message), scrubber.JSON(rpcErr.Data)
		return &c
	}
	if !ok || coded == nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "a defect of onecall stopped this request"}
	}
	data, marshalErr := json.Marshal(map[string]string{"code": string(coded.Code)})
	if marshalErr != nil {
		data = nil
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: scrubber.Text(coded.Message), Data: data}
}
