package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// call calls a tool. It repeats a call once if the server's session had ended before the call was sent, or if the call only reads
// and its answer was lost.
func (s *Source) call(ctx context.Context, t *tool, args []byte) ([]byte, error) {
	if f := checkArguments(args); f != nil {
		return nil, fault.MarkUnsent(f)
	}
	if effect := steps.EffectOf(ctx, t.effect); effect != t.effect {
		adjusted := *t
		adjusted.effect, t = effect, &adjusted
	}
	sessions, f := s.connectorOf(ctx)
	if f != nil {
		return nil, fault.MarkUnsent(f)
	}
	// The process of a client's session serves only that client, so its calls need no slot.
	if _, inSession := sessions.(*UpstreamSession); !inSession || s.options.URL != "" {
		release, f := s.slots.Acquire(ctx)
		if f != nil {
			return nil, f
		}
		defer release()
	}
	for again := false; ; again = true {
		conn, f := sessions.acquire(ctx)
		if f != nil {
			return nil, fault.MarkUnsent(f)
		}
		result, f := conn.call(ctx, t, args)
		doubted := conn.settle(again)
		sessions.release(conn)
		switch {
		case f == nil:
			return result, nil
		case again || ctx.Err() != nil || !t.mayRepeat(f, conn.ctx.Err() != nil, doubted):
			return nil, f
		}
	}
}

// mayRepeat reports whether a failed call may be repeated. ended is whether its connection has ended, and doubted whether its session
// may be lost. A call that may have been sent is repeated only if it reads and was not refused with an HTTP status; one that was refused
// with 400, perhaps because of its session, only if it is safe to repeat.
func (t *tool) mayRepeat(f *fault.Error, ended, doubted bool) bool {
	switch {
	case f.Code != fault.Unavailable:
		return doubted && f.Status == http.StatusBadRequest && (t.effect == steps.Read || t.idempotent)
	case f.Outcome == fault.NotSent:
		return ended
	}
	return t.effect == steps.Read && f.Status == 0
}

// connector provides connections for calls.
type connector interface {
	acquire(ctx context.Context) (*connection, *fault.Error)
	release(conn *connection)
}

// connectorOf returns the connector of a call: the client's session that ctx carries, else the source.
func (s *Source) connectorOf(ctx context.Context) (connector, *fault.Error) {
	call, ok := ctx.Value(sessionCallKey{s}).(*sessionCall)
	if !ok {
		return s, nil
	}
	session, err := call.session(ctx)
	if err == nil {
		return session, nil
	}
	f, coded := fault.As(err)
	if !coded || f == nil {
		f = s.unavailable("no session with it could be opened for this client")
	}
	return nil, f
}

func checkArguments(args []byte) *fault.Error {
	if len(args) == 0 || !gjson.ValidBytes(args) || !gjson.Parse(rawjson.View(args)).IsObject() {
		return fault.New(fault.BadArguments, "the arguments of a tool must be a JSON object")
	}
	return nil
}

// acquire returns the connection, which the caller releases. If there is none, it wakes the supervisor and waits until a
// connection is ready, a start has failed, or ctx is done.
func (s *Source) acquire(ctx context.Context) (*connection, *fault.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.failedStarts
	for {
		switch {
		case s.closed:
			return nil, s.unavailable("the source is closed")
		case s.conn != nil && s.conn.usable():
			s.conn.calls++
			return s.conn, nil
		case s.failedStarts != before && s.failure != nil: // nil: a later start succeeded, but its connection is lost again
			f := *s.failure
			f.Outcome = fault.NotSent
			return nil, &f
		}
		stateChanged := s.stateChanged
		s.mu.Unlock()
		signal(s.wake)
		select {
		case <-stateChanged:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if ctx.Err() != nil {
			return nil, stopped(ctx, s.options.Name+" was not ready", fault.NotSent)
		}
	}
}

func (s *Source) release(conn *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	conn.calls--
	conn.used = time.Now()
	if conn.calls == 0 && (conn.unreachable.Load() || conn.doubted.Load()) {
		signal(conn.expired)
	}
}

// unavailable returns the fault of a call that was not sent.
func (s *Source) unavailable(why string) *fault.Error {
	f := fault.New(fault.Unavailable, "MCP server %q: %s", s.options.Name, why)
	f.Outcome = fault.NotSent
	return f
}

// stopped returns the fault for a context that has ended. It does not wrap the context's error, because callers would then replace
// this fault with a less specific one.
func stopped(ctx context.Context, what string, outcome fault.Outcome) *fault.Error {
	if cause, ok := fault.As(context.Cause(ctx)); ok && cause != nil {
		f := *cause
		f.Outcome = outcome
		return &f
	}
	f := fault.New(fault.Cancelled, "%s when the call was cancelled", what)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		f = fault.New(fault.Timeout, "%s when the call timed out", what)
	}
	f.Outcome = outcome
	return f
}

// call makes one call on this connection.
func (c *connection) call(ctx context.Context, t *tool, args []byte) ([]byte, *fault.Error) {
	if t.task && c.protocol <= protocol.Stateful { // newer servers decide themselves what becomes a task
		return c.callTask(ctx, t, args)
	}
	pending := &pendingRequest{stub: t.stub()}
	params, token, f := c.begin(ctx, pending, t, args)
	if f != nil {
		return nil, f
	}
	inner := pending.withContext(ctx)
	if c.process == nil { // HTTP requests outlive their session
		inner, pending.cancel = context.WithCancel(inner)
		defer pending.cancel()
	}
	var err error
	posted := false
	if c.poster != nil && !t.headers && t.method == "" {
		posted, err = c.post(inner, pending, params, args, token)
	}
	if !posted {
		if c.process != nil && len(args) > largeArguments {
			pending.args, params.Arguments = args, argumentsStub
		}
		if token != 0 {
			if params.Meta == nil {
				params.Meta = sdk.Meta{}
			}
			params.Meta[progressTokenKey] = token
		}
		err = c.send(inner, t, params, args)
	}
	c.tap.forget(pending)
	pending.awaitDelivery(ctx)
	if err == nil && !posted {
		c.awaitStreamEnd(pending)
	}
	pending.mu.Lock()
	defer pending.mu.Unlock()
	if pending.unreachable {
		c.unreachable.Store(true)
	}
	c.doubt(pending)
	switch {
	case pending.failure != nil:
		f := *pending.failure
		if t.effect == steps.Read {
			f.Outcome = ""
		}
		if f.Outcome == "" && f.Status == 0 && t.effect != steps.Read { // an unreadable answer
			f.Outcome = fault.SentUnknown
		}
		return nil, &f
	case pending.result != nil:
		if verbatim := steps.CallbacksOf(ctx).Verbatim; verbatim != nil {
			verbatim(withObjectsIn(pending.result))
		}
		value, f, converted := c.source.valueInTime(ctx, t, pending.result)
		if converted && (f == nil || ctx.Err() == nil) {
			return value, f // completed work counts, even if it is a moment late
		}
	case pending.err != nil && ctx.Err() == nil: // after the end of ctx it may only say that the call was canceled
		f := c.source.refusedBy(ctx, t, pending.err)
		if pending.rawErrors {
			f.Err = c.source.clean(pending.err.rpc())
		}
		f.Status = pending.status
		return nil, f
	}
	return nil, c.answerLost(ctx, t, pending, err)
}

// begin prepares a call: pending receives its progress and log messages until tap.forget. It returns the call's params, and the progress
// token that they still lack; 0: nobody waits for progress.
func (c *connection) begin(ctx context.Context, pending *pendingRequest, t *tool, args []byte) (
	params *sdk.CallToolParams, token int64, f *fault.Error,
) {
	callbacks := steps.CallbacksOf(ctx)
	pending.alive = steps.Alive(ctx)
	params = &sdk.CallToolParams{Name: t.name, Arguments: json.RawMessage(args)}
	if f := c.addClientParams(ctx, pending, params); f != nil {
		return nil, 0, f
	}
	pending.startDelivery(ctx, callbacks, c.notify())
	if callbacks.Progress != nil || pending.alive != nil {
		token = c.tap.progressToken(pending)
	}
	if callbacks.Log != nil && c.tap.downstream == nil {
		c.askForLogsOf(params)
	}
	carryTrace(ctx, params)
	return params, token, nil
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

// noContent is the stub for results of tools.
func noContent(gjson.Result) []byte { return []byte(`{"content":[]}`) }

// answerLost returns the fault of a request without an answer. The caller holds pending.mu.
func (c *connection) answerLost(ctx context.Context, t *tool, pending *pendingRequest, err error) *fault.Error {
	s := c.source
	outcome := fault.NotSent
	switch {
	case pending.sent && t.effect == steps.Read:
		outcome = "" // a read changes nothing
	case pending.sent:
		outcome = fault.SentUnknown
	}
	if ctx.Err() != nil {
		return stopped(ctx, t.function+" had not answered", outcome)
	}
	carried, ok := fault.As(errors.Join(err, pending.cause))
	rpcErr := rpcError(err)
	f := fault.New(fault.Unavailable, "%s: ", t.function)
	switch {
	case ok && carried != nil:
		clone := *carried
		f = &clone
	case rpcErr != nil && statusCode(pending.status) != fault.Denied:
		f := s.refusedBy(ctx, t, &answerError{
			code: rpcErr.Code, word: strconv.FormatInt(rpcErr.Code, 10), message: rpcErr.Message, data: string(rpcErr.Data),
		})
		if pending.rawErrors {
			f.Err = s.clean(rpcErr)
		}
		return f
	case pending.status != 0:
		if errors.Is(err, sdk.ErrSessionMissing) {
			c.cancel()
		}
		f.Code, f.Status = statusCode(pending.status), pending.status
		f.Message += s.refusalText(pending.status)
	case outcome == fault.NotSent && pending.cause != nil:
		f.Message += s.options.address() + " could not be reached: " + s.errorText(pending.cause)
		c.unreachable.Store(true)
	case outcome == fault.NotSent:
		c.cancel()
		f.Message += "the connection was lost before it was sent"
	default:
		f.Message += "the connection was lost before the answer came"
		if t.effect != steps.Read {
			f.Message += ": it is not known whether its work was done"
		}
		if c.process != nil {
			f.Message += c.process.lastWords()
			c.cancel() // the pipes were the connection's only transport
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
func (s *Source) refusedBy(ctx context.Context, t *tool, e *answerError) *fault.Error {
	f := s.failed(ctx, strings.TrimSpace(e.message), []byte(e.data))
	f.Message = t.function + ": " + cmp.Or(f.Message, "it failed without saying why")
	if e.code == jsonrpc.CodeInvalidParams {
		f.Code = fault.BadArguments
	} else if e.word != "" {
		f.Message += " (error " + s.scrub.excerpt(e.word, maxQuoted) + ")"
	}
	return f
}

// maxBody bounds, in bytes, the details of a failed call, without its message.
const maxBody = 64 << 10
