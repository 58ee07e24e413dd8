package proxy

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/raw"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// clientKey is the context key of a request's client.
type clientKey struct{}

// downstreamClient describes the client to an upstream.
func (l *sessions) downstreamClient(u Upstream) *mcpsource.DownstreamClient {
	client := &mcpsource.DownstreamClient{
		Protocol:     protocol.Stateless,
		Capabilities: l.client.Capabilities(),
		Shared:       l.server == nil,
		Notify:       func(ctx context.Context, method string, params json.RawMessage) { l.notify(ctx, u, method, params) },
		Ask: func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
			l.client.Shown(ctx, u.Name())
			result, err := mcp.AskByResult(ctx, method, l.scrubbed(params))
			if errors.Is(err, mcp.ErrCallEnded) {
				err = mcpsource.ErrCallEnded
			}
			return result, err
		},
	}
	if l.server == nil {
		return client
	}
	if hello := l.server.InitializeParams(); hello != nil {
		client.Info = hello.ClientInfo
		if hello.ProtocolVersion < protocol.Stateless {
			client.Protocol = hello.ProtocolVersion
			client.Ask = func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
				l.client.Shown(ctx, u.Name())
				return l.ask(ctx, method, params)
			}
		}
	}
	return client
}

// upstreamMessage is an upstream's message to a client, unchanged. It travels to the SDK's sending side in the context of another
// message, the carrier, which it replaces there.
type upstreamMessage struct {
	method string
	params json.RawMessage
	result sdk.Result
}

type upstreamMessageKey struct{}

// errReplaced is the error of a carrier request when the client has answered the request sent in its place.
var errReplaced = errors.New("another request was made")

// Send implements mcp.UpstreamSessions. It replaces carrier messages with the messages of upstreams.
func (l *sessions) Send(ctx context.Context, method string, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error) {
	if h, ok := ctx.Value(listenerKey{}).(*listener); ok && method == "notifications/subscriptions/acknowledged" {
		defer h.acknowledge(req)()
		return next(ctx, method, req)
	}
	ss, ok := req.GetSession().(*sdk.ServerSession)
	if !ok {
		return next(ctx, method, req)
	}
	o, _ := ctx.Value(upstreamMessageKey{}).(*upstreamMessage)
	switch {
	case o == nil && method == toolsChanged && !l.markShown(l.client.Tools(), ss):
		return nil, nil // the change is not in this client's view, or the client already knows it
	case o == nil:
		return next(ctx, method, req)
	}
	// Without o in its context, so that it is not replaced again.
	result, err := next(context.WithValue(ctx, upstreamMessageKey{}, (*upstreamMessage)(nil)), o.method,
		&sdk.ServerRequest[*raw.Params]{Session: ss, Params: &raw.Params{Body: o.params}})
	if err != nil || result == nil {
		return nil, err
	}
	o.result = result
	return nil, errReplaced
}

// codeUndelivered is the SDK's error for a message that its transport does not send, such as one on the stream of a call that has ended.
const codeUndelivered = -32005

// ask passes an upstream's request to the client, with a ping as its carrier.
func (l *sessions) ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	o := &upstreamMessage{method: method, params: l.scrubbed(params)}
	err := l.server.Ping(context.WithValue(ctx, upstreamMessageKey{}, o), nil)
	switch {
	case o.result != nil:
		return json.Marshal(o.result)
	case err == nil:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client could not be asked"}
	}
	var rpcErr *jsonrpc.Error
	switch {
	case errors.As(err, &rpcErr) && rpcErr.Code == codeUndelivered:
		return nil, mcpsource.ErrCallEnded
	case rpcErr != nil:
		return nil, &jsonrpc.Error{Code: rpcErr.Code, Message: rpcErr.Message, Data: rpcErr.Data}
	}
	message := "the client did not answer"
	if ctx.Err() == nil {
		message = "the client left, or its answer to " + method + " is not a result"
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: message}
}

// notify passes an upstream's notification to the client.
func (l *sessions) notify(ctx context.Context, u Upstream, method string, params json.RawMessage) {
	params = l.scrubbed(params)
	switch method {
	case "notifications/resources/list_changed":
		l.forget("resources/list", "resources/templates/list")
	case "notifications/prompts/list_changed":
		l.forget("prompts/list")
	case "notifications/resources/updated":
		if !l.isSubscribed(u) {
			return
		}
	case toolsChanged:
		l.readTools(u, true)
		if l.client.Rights().Functions != "" || !l.client.View().HasAll(u.Name()) {
			return // the client may not use the changed tool; it is notified if its own view changes
		}
		l.markShown(nil, nil) // the new tools are not known yet
	case "notifications/message", "notifications/progress":
		l.client.Shown(ctx, u.Name())
	}
	l.deliver(ctx, method, params)
}

// deliver sends a notification to the client.
func (l *sessions) deliver(ctx context.Context, method string, params json.RawMessage) {
	ss, _ := ctx.Value(clientKey{}).(*sdk.ServerSession)
	switch {
	case method == "notifications/message" && l.belowLevel(params):
	case l.goesToListeners(method):
		l.notifyListeners(method, params)
	case ss != nil:
		_ = send(ctx, ss, method, params) // an error means that the client has left
	case l.server != nil:
		_ = send(ctx, l.server, method, params)
	}
}

// send sends a notification, with a progress notification as its carrier.
func send(ctx context.Context, ss *sdk.ServerSession, method string, params json.RawMessage) error {
	ctx = context.WithValue(ctx, upstreamMessageKey{}, &upstreamMessage{method: method, params: params})
	return ss.NotifyProgress(ctx, &sdk.ProgressNotificationParams{})
}

// scrubbed returns an upstream's params without secrets; an empty object if there are none.
func (l *sessions) scrubbed(params json.RawMessage) json.RawMessage {
	if len(params) == 0 || string(params) == "null" {
		return json.RawMessage("{}")
	}
	return l.client.Scrubber().JSON(params)
}

// belowLevel reports whether a log message is below the client's level, which the upstream may not have applied yet.
func (l *sessions) belowLevel(params json.RawMessage) bool {
	l.mu.Lock()
	level := gjson.GetBytes(l.level, "level").String()
	l.mu.Unlock()
	severity, known := protocol.LogLevels[gjson.GetBytes(params, "level").String()]
	return level != "" && known && severity < protocol.LogLevels[level]
}
