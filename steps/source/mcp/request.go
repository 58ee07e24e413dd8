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

// Do sends one request to the server and returns its raw result. It accepts any request except handshakes and tools/call, and also
// the notification notifications/roots/list_changed, which has no result. If params ask for progress (_meta.progressToken), the
// client gets it. In MCP 2026-07-28 a subscription is a stream, which the session keeps open. An error of the server is a
// *jsonrpc.Error, any other error of a request a *fault.Error: bad_request for other methods or malformed params, unavailable, denied,
// timeout, cancelled, or limit_exceeded for an answer that is too long.
func (u *UpstreamSession) Do(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	switch {
	case method == "notifications/roots/list_changed":
	case slices.Contains([]string{"", methodInitialize, methodDiscover, methodCall}, method) || strings.HasPrefix(method, "notifications/"):
		return nil, fault.New(fault.BadRequest, "requests of %s are not forwarded", quoted(method))
	case len(params) > 0 && !(gjson.ValidBytes(params) && gjson.ParseBytes(params).IsObject()):
		return nil, fault.New(fault.BadRequest, "the params of %s must be a JSON object", method)
	}
	var result json.RawMessage
	err := u.use(ctx, func(conn *connection) (err error) {
		switch method {
		case methodSubscribe, methodUnsubscribe:
			result, err = conn.subscription(ctx, method, params)
		case "notifications/roots/list_changed":
			if u.source.options.Roots {
				err = conn.write(ctx, &jsonrpc.Request{Method: method})
			}
		default:
			result, err = conn.request(ctx, method, params)
		}
		return err
	})
	if err == nil {
		u.remember(method, params)
	}
	return result, err
}

// use calls f with the session's connection. It calls f once more, with a new connection, if f failed because the server lost the session,
// or may have: f must be safe to repeat.
func (u *UpstreamSession) use(ctx context.Context, f func(conn *connection) error) error {
	for again := false; ; again = true {
		conn, unavailable := u.acquire(ctx)
		if unavailable != nil {
			return unavailable
		}
		err := f(conn)
		lost := conn.settle(again) || fault.CodeOf(err) == fault.Unavailable && conn.ctx.Err() != nil
		u.release(conn)
		if err == nil || again || !lost || ctx.Err() != nil {
			return err
		}
	}
}

// subscription subscribes to a resource or unsubscribes.
func (c *connection) subscription(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if c.protocol <= protocol.Stateful {
		return c.request(ctx, method, params)
	}
	uri := gjson.GetBytes(params, "uri").String()
	var err error
	if method == methodSubscribe {
		err = c.subscribe(ctx, uri)
	} else {
		err = c.client.Unsubscribe(ctx, &sdk.UnsubscribeParams{URI: uri})
	}
	if err == nil {
		return json.RawMessage("{}"), nil
	}
	if ctx.Err() != nil {
		return nil, stopped(ctx, c.source.options.Name+" "+method+" had not answered", "")
	}
	if rpcErr := rpcError(err); rpcErr != nil {
		return nil, c.source.clean(rpcErr)
	}
	f := fault.New(fault.Unavailable, "MCP server %q: %s: %s", c.source.options.Name, method, c.source.errorText(err))
	return nil, f
}

// subscribe opens the stream of a subscription. The SDK waits without regard to ctx until the server accepts the stream; Unsubscribe ends
// that wait.
func (c *connection) subscribe(ctx context.Context, uri string) error {
	opened := make(chan error, 1)
	go func() { opened <- c.client.Subscribe(ctx, &sdk.SubscribeParams{URI: uri}) }()
	select {
	case err := <-opened:
		return err
	case <-ctx.Done():
		_ = c.client.Unsubscribe(context.WithoutCancel(ctx), &sdk.UnsubscribeParams{URI: uri})
		return ctx.Err()
	}
}

// request sends a request without the SDK, which would decode it and its answer.
func (c *connection) request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	return c.requestFor(ctx, &tool{function: c.source.options.Name + " " + method, effect: steps.Read}, method, params, nil)
}

// requestFor is like request, for the call of a tool: a fault says what is known of its outcome. run is the task of the call; nil: none.
func (c *connection) requestFor(ctx context.Context, t *tool, method string, params json.RawMessage, run *taskRun) (
	json.RawMessage, error,
) {
	pending := &pendingRequest{stub: noResult, rawErrors: true, done: make(chan struct{})}
	meta := gjson.GetBytes(params, "_meta")
	clientToken := meta.Get(progressTokenKey)
	notify := c.notify()
	callbacks := &steps.Callbacks{}
	var progressToken int64
	if clientToken.Exists() && notify != nil {
		progressToken = c.tap.progressToken(pending)
		callbacks.Progress = func(ctx context.Context, done, total float64, message string) {
			notify(ctx, "notifications/progress", progressParams(clientToken.Raw, done, total, message))
		}
	}
	pending.ctx, pending.cancelCtx = context.WithCancel(ctx)
	pending.logLevel = requestedLogLevel(meta)
	if run != nil {
		callbacks.Log, pending.logLevel = steps.CallbacksOf(ctx).Log, run.messages.logLevel
		if method == methodCall { // its token is valid until the task ends
			progressToken = run.token
		}
	}
	pending.startDelivery(ctx, callbacks, notify)
	var inner context.Context
	inner, pending.cancel = context.WithCancel(pending.withContext(ctx))
	defer pending.cancel()
	number := firstID + c.tap.seq.Add(1)
	id, err := jsonrpc.MakeID(float64(number))
	if err == nil {
		err = c.write(inner, &jsonrpc.Request{ID: id, Method: method, Params: c.clientParams(params, meta, progressToken)})
	}
	if err == nil {
		select {
		case <-pending.done:
		case <-inner.Done(): // ends with ctx or the connection
		case <-c.ctx.Done():
		}
	}
	c.tap.forget(pending)
	pending.awaitDelivery(ctx)
	return c.answer(ctx, t, pending, number, err)
}

// noResult is the stub for requests that the SDK did not make, because the SDK ignores their answers.
func noResult(gjson.Result) []byte { return []byte("{}") }

// answer returns the answer to a request.
func (c *connection) answer(ctx context.Context, t *tool, pending *pendingRequest, number int64, err error) (json.RawMessage, error) {
	s := c.source
	pending.mu.Lock()
	defer pending.mu.Unlock()
	if pending.unreachable {
		c.unreachable.Store(true)
	}
	c.doubt(pending)
	rpcErr := rpcError(err)
	switch {
	case pending.failure != nil:
		return nil, pending.failure
	case pending.result != nil:
		return withObjectsIn(pending.result), nil
	case pending.err != nil:
		return nil, s.clean(pending.err.rpc())
	case rpcErr != nil && statusCode(pending.status) != fault.Denied:
		return nil, s.clean(rpcErr)
	}
	if ctx.Err() != nil && pending.sent {
		go c.cancelRequest(number)
	}
	return nil, c.answerLost(ctx, t, pending, err)
}

// cancelRequest tells the server that the answer is no longer needed.
func (c *connection) cancelRequest(number int64) {
	ctx, cancel := context.WithTimeout(c.ctx, closeGrace)
	defer cancel()
	params, err := json.Marshal(&sdk.CancelledParams{RequestID: number, Reason: "cancelled"})
	if err == nil {
		_ = c.write(ctx, &jsonrpc.Request{Method: "notifications/cancelled", Params: params})
	}
}

// write sends a message without the SDK.
func (c *connection) write(ctx context.Context, m jsonrpc.Message) error {
	c.transport.mu.Lock()
	conn := c.transport.conn
	c.transport.mu.Unlock()
	if conn == nil {
		return errors.New("there is no connection")
	}
	return conn.Write(ctx, m)
}

// notify returns the client's Notify; nil: there is no client, or it takes no notifications.
func (c *connection) notify() notifyFunc {
	if c.tap.downstream == nil {
		return nil
	}
	return c.tap.downstream.session.downstream.Notify
}

// addClientParams adds the client's params other than name and arguments to a tool call.
func (c *connection) addClientParams(ctx context.Context, pending *pendingRequest, params *sdk.CallToolParams) *fault.Error {
	call, ok := ctx.Value(sessionCallKey{c.source}).(*sessionCall)
	if !ok || c.tap.downstream == nil {
		return nil
	}
	pending.rawErrors = true
	pending.ctx, pending.cancelCtx = context.WithCancel(ctx)
	if len(call.params) == 0 {
		return nil
	}
	clientParams := gjson.ParseBytes(call.params)
	pending.logLevel = requestedLogLevel(clientParams.Get("_meta"))
	clientParams.Get("_meta").ForEach(func(key, value gjson.Result) bool {
		if key.Str != progressTokenKey && !c.reserved(key.Str) {
			if params.Meta == nil {
				params.Meta = sdk.Meta{}
			}
			params.Meta[key.Str] = json.RawMessage(c.allowed(key.Str, value))
		}
		return true
	})
	if c.protocol <= protocol.Stateful {
		return nil
	}
	params.RequestState = clientParams.Get("requestState").String()
	if responses := clientParams.Get("inputResponses"); responses.Exists() {
		if err := json.Unmarshal([]byte(c.allowed("inputResponses", responses)), &params.InputResponses); err != nil {
			pending.cancelCtx()
			return fault.New(fault.BadArguments, "inputResponses do not have the form that MCP defines: %s", cause(err))
		}
	}
	return nil
}

// reserved reports whether the client's value of a member of _meta is dropped, because the member describes the connection to the
// server.
func (c *connection) reserved(key string) bool {
	switch key {
	case sdk.MetaKeyProtocolVersion:
		return true
	case sdk.MetaKeyClientInfo, sdk.MetaKeyClientCapabilities, sdk.MetaKeyLogLevel: //nolint:staticcheck // see logs.go
		return c.protocol <= protocol.Stateful
	}
	return false
}

// allowed returns a member of the client's params or _meta, without capabilities that are not passed on. It drops roots unless the
// client may choose the server's directories.
func (c *connection) allowed(key string, value gjson.Result) string {
	roots := c.source.options.Roots
	var unwanted func(key, value gjson.Result) bool
	switch {
	case c.tap.downstream == nil || !value.IsObject():
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
	var filtered objectBuilder
	value.ForEach(func(k, v gjson.Result) bool {
		if !unwanted(k, v) {
			filtered.raw(k.Raw[1:len(k.Raw)-1], v.Raw)
		}
		return true
	})
	return string(filtered.end())
}

// clientParams returns the client's params for this server. It replaces the client's progress token with token (0: none) and adds
// the client information that the server's MCP version requires. It returns nil if there are no params.
func (c *connection) clientParams(params json.RawMessage, clientMeta gjson.Result, token int64) json.RawMessage {
	var meta objectBuilder
	written := map[string]bool{}
	add := func(key string, value any) {
		raw, err := json.Marshal(value)
		if err == nil && !written[key] {
			written[key] = true
			meta.raw(key, string(raw))
		}
	}
	clientMeta.ForEach(func(key, value gjson.Result) bool {
		if key.Str != progressTokenKey && !c.reserved(key.Str) && !written[key.Str] {
			written[key.Str] = true
			meta.raw(key.Raw[1:len(key.Raw)-1], c.allowed(key.Str, value))
		}
		return true
	})
	if token != 0 {
		add(progressTokenKey, token)
	}
	if c.protocol > protocol.Stateful {
		add(sdk.MetaKeyProtocolVersion, c.protocol)
		add(sdk.MetaKeyClientInfo, &sdk.Implementation{Name: c.source.options.ClientName, Version: c.source.options.ClientVersion})
		add(sdk.MetaKeyClientCapabilities, struct{}{})
	}
	var out objectBuilder
	gjson.ParseBytes(params).ForEach(func(key, value gjson.Result) bool {
		if key.Str != "_meta" {
			out.raw(key.Raw[1:len(key.Raw)-1], c.allowed(key.Str, value))
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

// clean returns an error of the server without secrets, as clients get it. Only the size of its message and details is bounded.
func (s *Source) clean(e *jsonrpc.Error) *jsonrpc.Error {
	c := &jsonrpc.Error{Code: e.Code, Message: s.scrub.excerpt(e.Message, maxBody)}
	if data := s.scrub.JSON(e.Data); len(data) > 0 && len(data) <= maxBody && gjson.ValidBytes(data) {
		c.Data = json.RawMessage(data)
	}
	return c
}
