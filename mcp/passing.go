package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/mcp/internal/raw"
)

// passIn answers the list and the calls of tools, whose bytes are given as they are, and has what upstreams offer beside tools
// answered by the client's links.
func (f *toolset) passIn(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		ss, ok := req.GetSession().(*sdk.ServerSession)
		if !ok || f.surface == SurfaceChain && method != "tools/list" {
			return next(ctx, method, req)
		}
		v := f.variantOf(ss)
		switch {
		case method == "tools/list":
			return v.list(ctx, f, ss, req, next)
		case method == "tools/call":
			return f.callTool(ctx, v, ss, req, next)
		case v == nil, method == "prompts/get" && f.hasPrompt(req):
			return next(ctx, method, req)
		}
		return v.links.Answer(ctx, method, req, next)
	}
}

// passOut sends the messages of upstreams. It stands on the sending side of the toolset's servers.
func (f *toolset) passOut(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if ss, ok := req.GetSession().(*sdk.ServerSession); ok {
			if v := f.variantOf(ss); v != nil {
				return v.links.Send(ctx, method, req, next)
			}
		}
		return next(ctx, method, req)
	}
}

// variantOf is what the client of a session sees for itself; nil: what all clients see.
func (f *toolset) variantOf(ss *sdk.ServerSession) *variant {
	if !f.passes() {
		return nil
	}
	if n := f.server.transport.Session(ss); n != nil && n.Kept.(*session).own != nil {
		return n.Kept.(*session).own
	}
	return f.shared
}

// list answers the list of tools, which has one page. v may be nil.
func (v *variant) list(ctx context.Context, f *toolset, ss *sdk.ServerSession, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error) {
	if asked, ok := req.GetParams().(*sdk.ListToolsParams); ok && asked != nil && asked.Cursor != "" {
		return next(ctx, "tools/list", req) // which knows no cursor
	}
	offered := f.offerOf(nil)
	if v != nil {
		v.links.Await(ctx)
		offered = v.links.Give()
	}
	items := make([]json.RawMessage, len(offered.tools))
	for i, t := range offered.tools {
		items[i] = t.listed
	}
	return raw.Page(raw.Version(ss, req), "tools", json.RawMessage("{}"), items, nil)
}

// verbatimResult is what an upstream answered to the call of a tool, without secrets, if it is to be given as it is.
type verbatimResult struct {
	result json.RawMessage
	err    *jsonrpc.Error
}

type verbatimKey struct{}

// giveVerbatim puts down what an upstream answered to the call of a tool, and reports whether the client gets it as it is: raw is
// its result, nil if there is none, and err what the call came to. ctx is that of the client's request.
func giveVerbatim(ctx context.Context, raw []byte, err error) bool {
	h, ok := ctx.Value(verbatimKey{}).(*verbatimResult)
	if !ok {
		return false
	}
	if len(raw) > 0 {
		h.result = raw
		return true
	}
	h.err = wireErrorOf(err)
	return h.err != nil
}

// callTool gives what an upstream answered in place of what was made of it.
func (f *toolset) callTool(ctx context.Context, v *variant, ss *sdk.ServerSession, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error) {
	h := &verbatimResult{}
	ctx = context.WithValue(ctx, verbatimKey{}, h)
	if v != nil {
		var err error
		if next, err = v.callOf(ctx, req, next); err != nil {
			return nil, err
		}
		ctx = v.links.Within(ctx, logsOnly(req))
	}
	result, err := next(ctx, "tools/call", req)
	switch {
	case err != nil:
		return result, err
	case h.err != nil:
		return nil, f.server.wireError(h.err)
	case h.result != nil:
		return raw.Result(raw.Version(ss, req), "tools/call", h.result)
	}
	return result, nil
}

// callOf is what answers the call of a tool: next, or the tool itself if only this client has it.
func (v *variant) callOf(ctx context.Context, req sdk.Request, next sdk.MethodHandler) (sdk.MethodHandler, error) {
	call, ok := req.(*sdk.CallToolRequest)
	if !ok {
		return next, nil
	}
	name := call.Params.Name
	if v.toolset.offerOf(v).byName[name] == nil {
		v.links.Await(ctx)
	}
	switch {
	case v.toolset.offerOf(v).byName[name] == nil:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown tool %q", name)}
	case v.toolset.shows(name):
		return next, nil
	}
	return func(ctx context.Context, _ string, _ sdk.Request) (sdk.Result, error) {
		return v.toolset.handler(name)(ctx, call)
	}, nil
}

// beside is what stands beside the arguments in the call of a tool; nil: nothing that could be handed on.
func beside(req *sdk.CallToolRequest) json.RawMessage {
	params := *req.Params
	params.Arguments = nil
	text, err := json.Marshal(&params)
	if err != nil {
		return nil
	}
	return text
}

// logsOnly is what of the params of a chain goes with each call that it makes: which log messages the client wants.
func logsOnly(req sdk.Request) json.RawMessage {
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

// wireError is an error as a client is told it: what an upstream answers stays what it is, but for the secrets.
func (s *Server) wireError(err error) *jsonrpc.Error {
	scrubber := s.o().Scrubber
	coded, ok := fault.As(err)
	var wire *jsonrpc.Error
	if !ok && errors.As(err, &wire) { // not one that a fault was caused by, such as the mark of what the SDK has not delivered
		c := *wire
		c.Message, c.Data = scrubber.Text(wire.Message), scrubber.JSON(wire.Data)
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
