package proxy

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/protocol"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// clientKey is where the context of a request has its client.
type clientKey struct{}

// peer is the client as an upstream is told of it.
func (l *links) peer(u Upstream) *mcpsource.Peer {
	peer := &mcpsource.Peer{
		Protocol: protocol.Stateless,
		Shared:   l.owner == nil,
		Notify:   func(ctx context.Context, method string, params json.RawMessage) { l.notify(ctx, u, method, params) },
	}
	if l.owner == nil {
		return peer
	}
	if hello := l.owner.InitializeParams(); hello != nil {
		peer.Capabilities, peer.Info = hello.Capabilities, hello.ClientInfo
		if hello.ProtocolVersion < protocol.Stateless {
			peer.Protocol = hello.ProtocolVersion
			peer.Ask = l.ask
		}
	}
	return peer
}

// outgoing is a message that goes to a client as an upstream wrote it. The context of another message carries it to the
// sending side of the SDK, where it takes that one's place.
type outgoing struct {
	method string
	params json.RawMessage
	result sdk.Result
}

type outgoingKey struct{}

// rawParams are params as an upstream wrote them.
type rawParams struct {
	sdk.ParamsBase
	body json.RawMessage
}

// MarshalJSON gives the upstream's bytes.
func (p *rawParams) MarshalJSON() ([]byte, error) { return p.body, nil }

// errTaken ends the request in whose place another was made.
var errTaken = errors.New("another request was made")

// Send implements mcp.Links: it sends the messages of upstreams in place of those that carry them.
func (l *links) Send(ctx context.Context, method string, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error) {
	if listening, ok := ctx.Value(listenerKey{}).(*listener); ok && method == "notifications/subscriptions/acknowledged" {
		defer listening.acknowledge(req)()
		return next(ctx, method, req)
	}
	ss, ok := req.GetSession().(*sdk.ServerSession)
	if !ok {
		return next(ctx, method, req)
	}
	o, _ := ctx.Value(outgoingKey{}).(*outgoing)
	switch {
	case o == nil && method == toolsChanged && !l.changeKnown(l.client.Tools(), ss):
		return nil, nil // what all see has changed, and not what this client sees, or it was told
	case o == nil:
		return next(ctx, method, req)
	}
	result, err := next(context.WithValue(ctx, outgoingKey{}, (*outgoing)(nil)), o.method,
		&sdk.ServerRequest[*rawParams]{Session: ss, Params: &rawParams{body: o.params}})
	if err != nil || result == nil {
		return nil, err
	}
	o.result = result
	return nil, errTaken
}

// ask has the client answer an upstream's request.
func (l *links) ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	o := &outgoing{method: method, params: l.shown(params)}
	err := l.owner.Ping(context.WithValue(ctx, outgoingKey{}, o), nil)
	switch {
	case o.result != nil:
		return json.Marshal(o.result)
	case err == nil:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client could not be asked"}
	}
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		return nil, &jsonrpc.Error{Code: wire.Code, Message: wire.Message, Data: wire.Data}
	}
	message := "the client did not answer"
	if ctx.Err() == nil {
		message = "the client answered what is no result of " + method + ", or has gone"
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: message}
}

// notify tells the client what an upstream tells.
func (l *links) notify(ctx context.Context, u Upstream, method string, params json.RawMessage) {
	params = l.shown(params)
	switch method {
	case "notifications/resources/list_changed":
		l.forget("resources/list", "resources/templates/list")
	case "notifications/prompts/list_changed":
		l.forget("prompts/list")
	case "notifications/resources/updated":
		if !l.follows(u) {
			return
		}
	case toolsChanged:
		l.readTools(u, true)
		if l.client.Rights().Functions != "" || !l.client.View().HasAll(u.Name()) {
			return // it may be a tool that the client may not use: the client is told when what it sees has changed
		}
		l.changeKnown(nil, nil)
	}
	l.deliver(ctx, method, params)
}

// deliver sends the client a notification.
func (l *links) deliver(ctx context.Context, method string, params json.RawMessage) {
	ss, _ := ctx.Value(clientKey{}).(*sdk.ServerSession)
	switch {
	case method == "notifications/message" && l.silences(params):
	case l.tellsListeners(method):
		l.tellListeners(method, params)
	case ss != nil:
		_ = send(ctx, ss, method, params) // a client that has gone is told nothing
	case l.owner != nil:
		_ = send(ctx, l.owner, method, params)
	}
}

// send sends a notification.
func send(ctx context.Context, ss *sdk.ServerSession, method string, params json.RawMessage) error {
	return ss.NotifyProgress(context.WithValue(ctx, outgoingKey{}, &outgoing{method: method, params: params}), &sdk.ProgressNotificationParams{})
}

// shown are an upstream's params without secrets; an empty object if there are none.
func (l *links) shown(params json.RawMessage) json.RawMessage {
	if len(params) == 0 || string(params) == "null" {
		return json.RawMessage("{}")
	}
	return l.client.Scrubber().JSON(params)
}

// silences tells of a log message whether it is below the level that the client has asked for. An upstream should know,
// but one that was asked a moment ago may not yet.
func (l *links) silences(params json.RawMessage) bool {
	l.mu.Lock()
	level := gjson.GetBytes(l.level, "level").String()
	l.mu.Unlock()
	said, known := protocol.LogLevels[gjson.GetBytes(params, "level").String()]
	return level != "" && known && said < protocol.LogLevels[level]
}
