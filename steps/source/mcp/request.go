package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/steps"
)

const (
	methodInitialize  = "initialize"
	methodDiscover    = "server/discover"
	methodSetLevel    = "logging/setLevel"
	methodSubscribe   = "resources/subscribe"
	methodUnsubscribe = "resources/unsubscribe"

	progressTokenKey = "progressToken"
)

// firstID is the first id of requests made without the SDK, whose own ids begin at 1.
const firstID = 1 << 40

// Do sends one request to the server and returns its raw result: any request except handshakes and tools/call, and the
// notification notifications/roots/list_changed, which has no result. Progress that the client asked for in params
// (_meta.progressToken) goes to the client. In MCP 2026-07-28 a subscription is a stream, which the session keeps open. An error
// of the server is a *jsonrpc.Error, any other a *fault.Error: bad_request for other methods or malformed params, unavailable,
// denied, timeout, cancelled, or limit_exceeded for an answer that is too long.
func (l *UpstreamSession) Do(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	switch {
	case method == "notifications/roots/list_changed":
	case slices.Contains([]string{"", methodInitialize, methodDiscover, methodCall}, method) || strings.HasPrefix(method, "notifications/"):
		return nil, fault.New(fault.BadRequest, "%s is no request that is handed on", quoted(method))
	case len(params) > 0 && !(gjson.ValidBytes(params) && gjson.ParseBytes(params).IsObject()):
		return nil, fault.New(fault.BadRequest, "the params of %s must be a JSON object", method)
	}
	n, f := l.acquire(ctx)
	if f != nil {
		return nil, f
	}
	defer l.release(n)
	var result json.RawMessage
	var err error
	switch method {
	case methodSubscribe, methodUnsubscribe:
		result, err = n.subscription(ctx, method, params)
	case "notifications/roots/list_changed":
		if !l.source.options.Roots {
			return nil, nil
		}
		return nil, n.write(ctx, &jsonrpc.Request{Method: method})
	default:
		result, err = n.request(ctx, method, params)
	}
	if err == nil {
		l.remember(method, params)
	}
	return result, err
}

// subscription subscribes to a resource or unsubscribes.
func (n *connection) subscription(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if n.protocol <= protocol.Stateful {
		return n.request(ctx, method, params)
	}
	uri := gjson.GetBytes(params, "uri").String()
	var err error
	if method == methodSubscribe {
		err = n.client.Subscribe(ctx, &sdk.SubscribeParams{URI: uri})
	} else {
		err = n.client.Unsubscribe(ctx, &sdk.UnsubscribeParams{URI: uri})
	}
	if err == nil {
		return json.RawMessage("{}"), nil
	}
	if rpcErr := rpcError(err); rpcErr != nil {
		return nil, n.source.clean(rpcErr)
	}
	f := fault.New(fault.Unavailable, "MCP server %q: %s: %s", n.source.options.Name, method, n.source.errorText(err))
	return nil, f
}

// request sends a request without the SDK, which would decode it and its answer.
func (n *connection) request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	x := &pendingRequest{stub: noResult, rawErrors: true, done: make(chan struct{})}
	given := gjson.GetBytes(params, "_meta")
	token := given.Get(progressTokenKey)
	notify := n.notify()
	callbacks := &steps.Callbacks{}
	var own int64
	if token.Exists() && notify != nil {
		own = n.tap.progressToken(x)
		callbacks.Progress = func(ctx context.Context, done, total float64, message string) {
			notify(ctx, "notifications/progress", progressParams(token.Raw, done, total, message))
		}
	}
	x.ctx, x.cancelCtx = context.WithCancel(ctx)
	x.logLevel = requestedLogLevel(given)
	x.startDelivery(ctx, callbacks, notify)
	var inner context.Context
	inner, x.cancel = context.WithCancel(x.withContext(ctx))
	defer x.cancel()
	number := firstID + n.tap.seq.Add(1)
	id, err := jsonrpc.MakeID(float64(number))
	if err == nil {
		err = n.write(inner, &jsonrpc.Request{ID: id, Method: method, Params: n.clientParams(params, given, own)})
	}
	if err == nil {
		select {
		case <-x.done:
		case <-inner.Done(): // ends with ctx or the connection
		case <-n.ctx.Done():
		}
	}
	n.tap.forget(x)
	x.awaitDelivery(ctx)
	return n.answer(ctx, x, method, number, err)
}

// noResult is the stub for requests that the SDK has not made; it ignores their answers.
func noResult(gjson.Result) []byte { return []byte("{}") }

// answer returns the answer to a request.
func (n *connection) answer(ctx context.Context, x *pendingRequest, method string, number int64, err error) (json.RawMessage, error) {
	s := n.source
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.unreachable {
		n.unreachable.Store(true)
	}
	rpcErr := rpcError(err)
	switch {
	case x.failure != nil:
		return nil, x.failure
	case x.result != nil:
		return x.result, nil
	case x.err != nil:
		return nil, s.rpcErrorOf(*x.err)
	case rpcErr != nil && statusCode(x.status) != fault.Denied:
		return nil, s.clean(rpcErr)
	}
	if ctx.Err() != nil && x.sent {
		go n.cancelRequest(number)
	}
	return nil, n.answerLost(ctx, &tool{function: s.options.Name + " " + method, effect: steps.Read}, x, err)
}

// cancelRequest tells the server that nobody waits for an answer.
func (n *connection) cancelRequest(number int64) {
	ctx, cancel := context.WithTimeout(n.ctx, closeGrace)
	defer cancel()
	params, err := json.Marshal(&sdk.CancelledParams{RequestID: number, Reason: "cancelled"})
	if err == nil {
		_ = n.write(ctx, &jsonrpc.Request{Method: "notifications/cancelled", Params: params})
	}
}

// write sends a message without the SDK.
func (n *connection) write(ctx context.Context, m jsonrpc.Message) error {
	n.transport.mu.Lock()
	conn := n.transport.conn
	n.transport.mu.Unlock()
	if conn == nil {
		return errors.New("there is no connection")
	}
	return conn.Write(ctx, m)
}

// notify returns the client's Notify; nil: there is no client, or it takes no notifications.
func (n *connection) notify() notifyFunc {
	if n.tap.downstream == nil {
		return nil
	}
	return n.tap.downstream.upstream.downstream.Notify
}

// addClientParams adds the client's params beside name and arguments to a tool call.
func (n *connection) addClientParams(ctx context.Context, x *pendingRequest, params *sdk.CallToolParams) *fault.Error {
	c, ok := ctx.Value(sessionCallKey{n.source}).(*sessionCall)
	if !ok || n.tap.downstream == nil {
		return nil
	}
	x.rawErrors = true
	x.ctx, x.cancelCtx = context.WithCancel(ctx)
	if len(c.params) == 0 {
		return nil
	}
	given := gjson.ParseBytes(c.params)
	x.logLevel = requestedLogLevel(given.Get("_meta"))
	given.Get("_meta").ForEach(func(key, value gjson.Result) bool {
		if key.Str != progressTokenKey && !n.reserved(key.Str) {
			if params.Meta == nil {
				params.Meta = sdk.Meta{}
			}
			params.Meta[key.Str] = json.RawMessage(n.allowed(key.Str, value))
		}
		return true
	})
	if n.protocol <= protocol.Stateful {
		return nil
	}
	params.RequestState = given.Get("requestState").String()
	if responses := given.Get("inputResponses"); responses.Exists() {
		if err := json.Unmarshal([]byte(n.allowed("inputResponses", responses)), &params.InputResponses); err != nil {
			x.cancelCtx()
			return fault.New(fault.BadArguments, "inputResponses are not what MCP has there: %s", cause(err))
		}
	}
	return nil
}

// reserved reports whether a member of _meta describes the connection to the server, so that the client's value is dropped.
func (n *connection) reserved(key string) bool {
	switch key {
	case sdk.MetaKeyProtocolVersion:
		return true
	case sdk.MetaKeyClientInfo, sdk.MetaKeyClientCapabilities, sdk.MetaKeyLogLevel: //nolint:staticcheck // see logs.go
		return n.protocol <= protocol.Stateful
	}
	return false
}

// allowed returns a member of the client's params or _meta without capabilities that are not passed on, and without roots unless
// the client may choose the server's directories.
func (n *connection) allowed(key string, value gjson.Result) string {
	roots := n.source.options.Roots
	var unwanted func(key, value gjson.Result) bool
	switch {
	case n.tap.downstream == nil || !value.IsObject():
	case key == sdk.MetaKeyClientCapabilities:
		unwanted = func(k, _ gjson.Result) bool {
			return k.Str == "extensions" || k.Str == "experimental" || k.Str == "roots" && !roots
		}
	case key == "inputResponses" && !roots:
		unwanted = func(_, v gjson.Result) bool { return v.Get("roots").Exists() }
	}
	if unwanted == nil {
		return value.Raw
	}
	var kept objectBuilder
	value.ForEach(func(k, v gjson.Result) bool {
		if !unwanted(k, v) {
			kept.raw(k.Raw[1:len(k.Raw)-1], v.Raw)
		}
		return true
	})
	return string(kept.end())
}

// clientParams returns a client's params for this server: with our progress token (0: none) in place of the client's, and with
// the client information that the server's MCP version requires.
func (n *connection) clientParams(params json.RawMessage, given gjson.Result, token int64) json.RawMessage {
	var meta objectBuilder
	written := map[string]bool{}
	add := func(key string, value any) {
		raw, err := json.Marshal(value)
		if err == nil && !written[key] {
			written[key] = true
			meta.raw(key, string(raw))
		}
	}
	given.ForEach(func(key, value gjson.Result) bool {
		if key.Str != progressTokenKey && !n.reserved(key.Str) && !written[key.Str] {
			written[key.Str] = true
			meta.raw(key.Raw[1:len(key.Raw)-1], n.allowed(key.Str, value))
		}
		return true
	})
	if token != 0 {
		add(progressTokenKey, token)
	}
	if n.protocol > protocol.Stateful {
		add(sdk.MetaKeyProtocolVersion, n.protocol)
		add(sdk.MetaKeyClientInfo, &sdk.Implementation{Name: n.source.options.ClientName, Version: n.source.options.ClientVersion})
		add(sdk.MetaKeyClientCapabilities, struct{}{})
	}
	var out objectBuilder
	gjson.ParseBytes(params).ForEach(func(key, value gjson.Result) bool {
		if key.Str != "_meta" {
			out.raw(key.Raw[1:len(key.Raw)-1], n.allowed(key.Str, value))
		}
		return true
	})
	if meta.b.Len() > 0 {
		out.raw("_meta", string(meta.end()))
	}
	if out.b.Len() == 0 && len(params) == 0 {
		return nil
	}
	return out.end()
}

// progressParams returns the params of a progress notification.
func progressParams(token string, done, total float64, message string) json.RawMessage {
	var o objectBuilder
	o.raw(progressTokenKey, token)
	number := func(key string, value float64) {
		if raw, err := json.Marshal(value); err == nil {
			o.raw(key, string(raw))
		}
	}
	number("progress", done)
	if total != 0 {
		number("total", total)
	}
	if message != "" {
		o.text("message", message)
	}
	return o.end()
}

// rpcErrorOf returns a JSON-RPC error of the server without secrets.
func (s *Source) rpcErrorOf(e gjson.Result) *jsonrpc.Error {
	return s.clean(&jsonrpc.Error{Code: e.Get("code").Int(), Message: e.Get("message").String(), Data: json.RawMessage(e.Get("data").Raw)})
}

// clean returns a bounded error of the server without secrets.
func (s *Source) clean(e *jsonrpc.Error) *jsonrpc.Error {
	c := &jsonrpc.Error{Code: e.Code, Message: s.scrub.excerpt(e.Message, maxErrorText)}
	if data := s.scrub.JSON(e.Data); len(data) > 0 && len(data) <= maxBody && gjson.ValidBytes(data) {
		c.Data = json.RawMessage(data)
	}
	return c
}
