package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// call calls a tool. It repeats a call once if the server cannot have seen it because its session had ended, or if the call only
// reads and its answer was lost.
func (s *Source) call(ctx context.Context, t *tool, args []byte) ([]byte, error) {
	if f := checkArguments(args); f != nil {
		return nil, fault.Unsent(f)
	}
	if effect := steps.EffectOf(ctx, t.effect); effect != t.effect {
		own := *t
		own.effect, t = effect, &own
	}
	sessions, f := s.connectorOf(ctx)
	if f != nil {
		return nil, fault.Unsent(f)
	}
	if _, linked := sessions.(*UpstreamSession); !linked || s.options.URL != "" {
		release, f := s.slots.Acquire(ctx)
		if f != nil {
			return nil, f
		}
		defer release()
	}
	for again := false; ; again = true {
		n, f := sessions.acquire(ctx)
		if f != nil {
			return nil, fault.Unsent(f)
		}
		result, f := n.call(ctx, t, args)
		sessions.release(n)
		switch {
		case f == nil:
			return result, nil
		case again || ctx.Err() != nil || !t.mayRepeat(f, n.ctx.Err() != nil):
			return nil, f
		}
	}
}

// mayRepeat reports whether a failed call may be repeated; ended: its connection has ended.
func (t *tool) mayRepeat(f *fault.Error, ended bool) bool {
	switch {
	case f.Code != fault.Unavailable:
		return false
	case f.Outcome == fault.NotSent:
		return ended
	}
	return t.effect == steps.Read && f.Status == 0
}

// connector provides connections for calls.
type connector interface {
	acquire(ctx context.Context) (*connection, *fault.Error)
	release(n *connection)
}

// connectorOf returns the connector of a call: the client's session that ctx carries, else the source.
func (s *Source) connectorOf(ctx context.Context) (connector, *fault.Error) {
	c, ok := ctx.Value(sessionCallKey{s}).(*sessionCall)
	if !ok {
		return s, nil
	}
	l, err := c.session(ctx)
	if err == nil {
		return l, nil
	}
	f, coded := fault.As(err)
	if !coded || f == nil {
		f = s.unavailable("no session with it could be opened for this client")
	}
	return nil, f
}

func checkArguments(args []byte) *fault.Error {
	if len(args) == 0 || !gjson.ValidBytes(args) || !gjson.ParseBytes(args).IsObject() {
		return fault.New(fault.BadArguments, "the arguments of a tool must be a JSON object")
	}
	return nil
}

// acquire returns the connection, which the caller releases. If there is none, it wakes the supervisor and waits until a
// connection is ready, a start has failed, or ctx is done.
func (s *Source) acquire(ctx context.Context) (*connection, *fault.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.attempts
	for {
		switch {
		case s.closed:
			return nil, s.unavailable("the source is closed")
		case s.conn != nil && s.conn.ctx.Err() == nil:
			s.conn.calls++
			return s.conn, nil
		case s.attempts != before:
			f := *s.failure
			f.Outcome = fault.NotSent
			return nil, &f
		}
		moved := s.stateChanged
		s.mu.Unlock()
		signal(s.wake)
		select {
		case <-moved:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if ctx.Err() != nil {
			return nil, stopped(ctx, s.options.Name+" has not been ready", fault.NotSent)
		}
	}
}

func (s *Source) release(n *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.calls--
	n.used = time.Now()
	if n.calls == 0 && n.unreachable.Load() {
		signal(n.expired)
	}
}

// unavailable returns the fault of a call that was not sent.
func (s *Source) unavailable(why string) *fault.Error {
	f := fault.New(fault.Unavailable, "MCP server %q: %s", s.options.Name, why)
	f.Outcome = fault.NotSent
	return f
}

// stopped returns the fault for a context that has ended. It does not wrap the context's error, because callers would replace it
// by a less specific one.
func stopped(ctx context.Context, what string, outcome fault.Outcome) *fault.Error {
	if given, ok := fault.As(context.Cause(ctx)); ok && given != nil {
		f := *given
		f.Outcome = outcome
		return &f
	}
	f := fault.New(fault.Cancelled, "%s when the call was cancelled", what)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		f = fault.New(fault.Timeout, "%s when the time of the call was over", what)
	}
	f.Outcome = outcome
	return f
}

// call makes one call on this connection.
func (n *connection) call(ctx context.Context, t *tool, args []byte) ([]byte, *fault.Error) {
	callbacks := steps.CallbacksOf(ctx)
	x := &pendingRequest{stub: noContent}
	params := &sdk.CallToolParams{Name: t.name, Arguments: json.RawMessage(args)}
	if f := n.addClientParams(ctx, x, params); f != nil {
		return nil, f
	}
	x.startDelivery(ctx, callbacks, n.notify())
	if callbacks.Progress != nil {
		if params.Meta == nil {
			params.Meta = sdk.Meta{}
		}
		params.Meta[progressTokenKey] = n.tap.progressToken(x)
	}
	if callbacks.Log != nil && n.tap.downstream == nil {
		n.askForLogsOf(params)
	}
	carryTrace(ctx, params)
	inner := x.withContext(ctx)
	if n.process == nil { // HTTP requests outlive their session
		inner, x.cancel = context.WithCancel(inner)
		defer x.cancel()
	}
	var err error
	posted := false
	if n.poster != nil && !t.headers {
		posted, err = n.post(inner, x, params, args)
	}
	if !posted {
		_, err = n.client.CallTool(inner, params)
	}
	n.tap.forget(x)
	x.awaitDelivery(ctx)
	if err == nil && !posted {
		n.awaitStreamEnd(x)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.unreachable {
		n.unreachable.Store(true)
	}
	switch {
	case x.failure != nil:
		f := *x.failure
		if t.effect == steps.Read {
			f.Outcome = ""
		}
		if f.Outcome == "" && f.Status == 0 && t.effect != steps.Read { // an unreadable answer
			f.Outcome = fault.SentUnknown
		}
		return nil, &f
	case x.result != nil:
		if callbacks.Verbatim != nil {
			callbacks.Verbatim(x.result)
		}
		value, f, made := n.source.valueInTime(ctx, t, x.result)
		if made && (f == nil || ctx.Err() == nil) {
			return value, f // completed work counts, even if it is a moment late
		}
	case x.err != nil && ctx.Err() == nil: // after the end of ctx it may only say that the call was canceled
		f := n.source.refusedBy(t, x.err.Get("code").Int(), x.err.Get("message").String(), x.err.Get("data").Raw)
		if x.rawErrors {
			f.Err = n.source.rpcErrorOf(*x.err)
		}
		return nil, f
	}
	return nil, n.answerLost(ctx, t, x, err)
}

// Members of _meta that carry a trace (MCP 2026-07-28, "_meta"; OpenTelemetry's semantic conventions for MCP).
const metaTraceParent, metaTraceState = "traceparent", "tracestate"

// carryTrace adds the trace of ctx to a call. It replaces the client's trace context, which it continues.
func carryTrace(ctx context.Context, params *sdk.CallToolParams) {
	parent, state := steps.Trace(ctx)
	if parent == "" {
		return
	}
	if params.Meta == nil {
		params.Meta = sdk.Meta{}
	}
	params.Meta[metaTraceParent] = parent
	if delete(params.Meta, metaTraceState); state != "" {
		params.Meta[metaTraceState] = state
	}
}

// noContent is the stub for results of calls.
func noContent(gjson.Result) []byte { return []byte(`{"content":[]}`) }

// answerLost returns the fault of a request without an answer. The caller holds x.mu.
func (n *connection) answerLost(ctx context.Context, t *tool, x *pendingRequest, err error) *fault.Error {
	s := n.source
	outcome := fault.NotSent
	switch {
	case x.sent && t.effect == steps.Read:
		outcome = "" // a read changes nothing
	case x.sent:
		outcome = fault.SentUnknown
	}
	if ctx.Err() != nil {
		return stopped(ctx, t.function+" had not answered", outcome)
	}
	given, coded := fault.As(errors.Join(err, x.cause))
	rpcErr := rpcError(err)
	f := fault.New(fault.Unavailable, "%s: ", t.function)
	switch {
	case coded && given != nil:
		c := *given
		f = &c
	case rpcErr != nil && statusCode(x.status) != fault.Denied:
		f := s.refusedBy(t, rpcErr.Code, rpcErr.Message, string(rpcErr.Data))
		if x.rawErrors {
			f.Err = s.clean(rpcErr)
		}
		return f
	case x.status != 0:
		if errors.Is(err, sdk.ErrSessionMissing) {
			n.cancel()
		}
		f.Code, f.Status = statusCode(x.status), x.status
		f.Message += s.refusalText(x.status)
	case outcome == fault.NotSent && x.cause != nil:
		f.Message += s.options.address() + " could not be reached: " + s.errorText(x.cause)
		n.unreachable.Store(true)
	case outcome == fault.NotSent:
		n.cancel()
		f.Message += "the connection was lost before it was sent"
	default:
		f.Message += "the connection was lost before the answer came"
		if t.effect != steps.Read {
			f.Message += ": it is not known whether its work was done"
		}
		if n.process != nil {
			f.Message += n.process.lastWords()
			n.cancel() // its only transport
		}
	}
	f.Err, f.Outcome = nil, outcome
	return f
}

// rpcError returns the JSON-RPC error of the server in err; nil: none. The SDK reports undelivered requests with an error of the
// same type.
func rpcError(err error) *jsonrpc.Error {
	var rpcErr *jsonrpc.Error
	if !errors.As(err, &rpcErr) || rpcErr.Code == codeUndelivered {
		return nil
	}
	return rpcErr
}

// codeUndelivered marks the SDK's error for undelivered requests; the SDK keeps it in an internal package.
const codeUndelivered = -32005

// refusedBy converts a JSON-RPC error of the server (JSON-RPC 2.0, section 5.1).
func (s *Source) refusedBy(t *tool, code int64, message, data string) *fault.Error {
	f := fault.New(fault.FunctionFailed, "%s: %s", t.function, s.scrub.excerpt(message, maxErrorText))
	if code == jsonrpc.CodeInvalidParams {
		f.Code = fault.BadArguments
	} else {
		f.Message += fmt.Sprintf(" (error %d)", code)
	}
	if data != "" && len(data) <= maxBody {
		if body, err := schema.Compact(s.scrub.JSON([]byte(data))); err == nil {
			f.Body = body
		}
	}
	return f
}

// maxBody bounds the details of a failed call beside its message.
const maxBody = 64 << 10
