package mcp

import (
	"context"
	"encoding/json"
	"errors"
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

// firstID is where the ids of requests begin that are made past the SDK, whose own begin at 1.
const firstID = 1 << 40

// Do makes one request of the server, and gives its result as the server wrote it: any request beside those of the
// handshake and tools/call, and notifications/roots/list_changed, which has none. Progress that the client has asked for
// in params (_meta.progressToken) goes to the peer. In a session of MCP 2026-07-28 a subscription is a stream of its own,
// which the link keeps. An error that the server answers is a *jsonrpc.Error; else a *fault.Error: bad_request for another
// method or params that are no object, unavailable, denied, timeout, cancelled, limit_exceeded for an answer that is too
// long.
func (l *Link) Do(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	switch {
	case method == "notifications/roots/list_changed":
	case method == "" || method == methodInitialize || method == methodDiscover || method == "tools/call" || strings.HasPrefix(method, "notifications/"):
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

// subscription subscribes to a resource, or ends that.
func (n *session) subscription(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
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
	if wire := wireError(err); wire != nil {
		return nil, n.source.clean(wire)
	}
	f := fault.New(fault.Unavailable, "MCP server %q: %s: %s", n.source.options.Name, method, n.source.told(err))
	return nil, f
}

// request makes a request of the server past the SDK, which would decode it and its answer.
func (n *session) request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	x := &exchange{stub: noResult, direct: true, done: make(chan struct{})}
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
	x.ctx, x.over = context.WithCancel(ctx)
	x.logs = asksForLogs(given)
	x.attended(ctx, callbacks, notify)
	var inner context.Context
	inner, x.cancel = context.WithCancel(x.in(ctx))
	defer x.cancel()
	number := firstID + n.tap.turn.Add(1)
	id, err := jsonrpc.MakeID(float64(number))
	if err == nil {
		err = n.write(inner, &jsonrpc.Request{ID: id, Method: method, Params: n.addressed(params, given, own)})
	}
	if err == nil {
		select {
		case <-x.done:
		case <-inner.Done(): // with ctx, or with the session
		case <-n.ctx.Done():
		}
	}
	n.tap.forget(x)
	x.settle(ctx)
	return n.outcome(ctx, x, method, number, err)
}

// noResult is what the SDK, which has not made the request, ignores.
func noResult(gjson.Result) []byte { return []byte("{}") }

// outcome is what a request came to.
func (n *session) outcome(ctx context.Context, x *exchange, method string, number int64, err error) (json.RawMessage, error) {
	s := n.source
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.down {
		n.doubted.Store(true)
	}
	wire := wireError(err)
	switch {
	case x.broken != nil:
		return nil, x.broken
	case x.result != nil:
		return x.result, nil
	case x.err != nil:
		return nil, s.wireErrorOf(*x.err)
	case wire != nil && statusCode(x.status) != fault.Denied:
		return nil, s.clean(wire)
	}
	if ctx.Err() != nil && x.reached {
		go n.withdraw(number)
	}
	return nil, n.unanswered(ctx, &tool{function: s.options.Name + " " + method, effect: steps.Read}, x, err)
}

// withdraw tells the server that nobody waits for the answer to a request.
func (n *session) withdraw(number int64) {
	ctx, cancel := context.WithTimeout(n.ctx, closeGrace)
	defer cancel()
	params, err := json.Marshal(&sdk.CancelledParams{RequestID: number, Reason: "cancelled"})
	if err == nil {
		_ = n.write(ctx, &jsonrpc.Request{Method: "notifications/cancelled", Params: params})
	}
}

// write sends a message past the SDK.
func (n *session) write(ctx context.Context, m jsonrpc.Message) error {
	n.held.mu.Lock()
	conn := n.held.conn
	n.held.mu.Unlock()
	if conn == nil {
		return errors.New("there is no connection")
	}
	return conn.Write(ctx, m)
}

// notify is how the client of a link is told; nil: there is none, or it is told nothing.
func (n *session) notify() func(ctx context.Context, method string, params json.RawMessage) {
	if n.tap.link == nil {
		return nil
	}
	return n.tap.link.link.peer.Notify
}

// linkCall puts into the call of a tool what the client of a link has said beside its arguments.
func (n *session) linkCall(ctx context.Context, x *exchange, params *sdk.CallToolParams) *fault.Error {
	c, ok := ctx.Value(linkKey{n.source}).(*linkedCall)
	if !ok || n.tap.link == nil {
		return nil
	}
	x.direct = true
	x.ctx, x.over = context.WithCancel(ctx)
	if len(c.params) == 0 {
		return nil
	}
	given := gjson.ParseBytes(c.params)
	x.logs = asksForLogs(given.Get("_meta"))
	given.Get("_meta").ForEach(func(key, value gjson.Result) bool {
		if key.Str != progressTokenKey && !n.ours(key.Str) {
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
			x.over()
			return fault.New(fault.BadArguments, "inputResponses are not what MCP has there: %s", cause(err))
		}
	}
	return nil
}

// ours tells of a key of _meta whether it is about the session with the server, in which the client's word does not count.
func (n *session) ours(key string) bool {
	switch key {
	case sdk.MetaKeyProtocolVersion:
		return true
	case sdk.MetaKeyClientInfo, sdk.MetaKeyClientCapabilities, sdk.MetaKeyLogLevel: //nolint:staticcheck // see logs.go
		return n.protocol <= protocol.Stateful
	}
	return false
}

// allowed is what a client says under a key of its params or of their _meta, as the server may hear it: without capabilities
// that are not passed through, and without roots where it may not choose the server's directories.
func (n *session) allowed(key string, value gjson.Result) string {
	roots := n.source.options.Roots
	var unwanted func(key, value gjson.Result) bool
	switch {
	case n.tap.link == nil || !value.IsObject():
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
	var kept object
	value.ForEach(func(k, v gjson.Result) bool {
		if !unwanted(k, v) {
			kept.raw(k.Raw[1:len(k.Raw)-1], v.Raw)
		}
		return true
	})
	return string(kept.end())
}

// addressed are the params of a client as this server is to get them: with a progress token of ours (0: none) in place of
// the client's, and what each request says of its sender where the server's version of MCP has that.
func (n *session) addressed(params json.RawMessage, given gjson.Result, token int64) json.RawMessage {
	var meta object
	written := map[string]bool{}
	add := func(key string, value any) {
		raw, err := json.Marshal(value)
		if err == nil && !written[key] {
			written[key] = true
			meta.raw(key, string(raw))
		}
	}
	given.ForEach(func(key, value gjson.Result) bool {
		if key.Str != progressTokenKey && !n.ours(key.Str) && !written[key.Str] {
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
	var out object
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

// progressParams are those of a notification of progress.
func progressParams(token string, done, total float64, message string) json.RawMessage {
	var o object
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

// wireErrorOf is the JSON-RPC error that the server has answered, without secrets.
func (s *Source) wireErrorOf(e gjson.Result) *jsonrpc.Error {
	return s.clean(&jsonrpc.Error{Code: e.Get("code").Int(), Message: e.Get("message").String(), Data: json.RawMessage(e.Get("data").Raw)})
}

// clean is an error of the server without secrets, of bounded length.
func (s *Source) clean(e *jsonrpc.Error) *jsonrpc.Error {
	c := &jsonrpc.Error{Code: e.Code, Message: s.scrub.excerpt(e.Message, maxErrorText)}
	if data := s.scrub.JSON(e.Data); len(data) > 0 && len(data) <= maxBody && gjson.ValidBytes(data) {
		c.Data = json.RawMessage(data)
	}
	return c
}
