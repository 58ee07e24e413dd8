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

// call calls a tool. A call that the server certainly has not seen because its session had ended, or that only reads
// and was lost, is made once more.
func (s *Source) call(ctx context.Context, t *tool, args []byte) ([]byte, error) {
	if f := checkArguments(args); f != nil {
		return nil, fault.Unsent(f)
	}
	if effect := steps.EffectOf(ctx, t.effect); effect != t.effect {
		own := *t
		own.effect, t = effect, &own
	}
	sessions, f := s.sessionsOf(ctx)
	if f != nil {
		return nil, fault.Unsent(f)
	}
	if _, linked := sessions.(*Link); !linked || s.options.URL != "" {
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

// mayRepeat reports whether a call that failed may be made again; ended: its session has ended.
func (t *tool) mayRepeat(f *fault.Error, ended bool) bool {
	switch {
	case f.Code != fault.Unavailable:
		return false
	case f.Outcome == fault.NotSent:
		return ended
	}
	return t.effect == steps.Read && f.Status == 0
}

// sessions gives the session that a call is made in, which is given back after it.
type sessions interface {
	acquire(ctx context.Context) (*session, *fault.Error)
	release(n *session)
}

// sessionsOf is where a call finds its session: the link that ctx carries, else the source itself.
func (s *Source) sessionsOf(ctx context.Context) (sessions, *fault.Error) {
	c, ok := ctx.Value(linkKey{s}).(*linkedCall)
	if !ok {
		return s, nil
	}
	l, err := c.link(ctx)
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

// acquire gives the session, which the caller releases. Where there is none it has the server started, and waits until
// it is there, a start has failed, or ctx is done.
func (s *Source) acquire(ctx context.Context) (*session, *fault.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.attempts
	for {
		switch {
		case s.closed:
			return nil, s.unavailable("the source is closed")
		case s.session != nil && s.session.ctx.Err() == nil:
			s.session.calls++
			return s.session, nil
		case s.attempts != before:
			f := *s.failure
			f.Outcome = fault.NotSent
			return nil, &f
		}
		moved := s.moved
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

func (s *Source) release(n *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.calls--
	n.used = time.Now()
	if n.calls == 0 && n.doubted.Load() {
		signal(n.suspect)
	}
}

// unavailable is the fault of a call that never left.
func (s *Source) unavailable(why string) *fault.Error {
	f := fault.New(fault.Unavailable, "MCP server %q: %s", s.options.Name, why)
	f.Outcome = fault.NotSent
	return f
}

// stopped is the fault for a context that has ended. It does not wrap the context's error: it says more, and must be
// told as it is.
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

// call makes one call in this session.
func (n *session) call(ctx context.Context, t *tool, args []byte) ([]byte, *fault.Error) {
	callbacks := steps.CallbacksOf(ctx)
	x := &exchange{stub: noContent}
	params := &sdk.CallToolParams{Name: t.name, Arguments: json.RawMessage(args)}
	if f := n.linkCall(ctx, x, params); f != nil {
		return nil, f
	}
	x.attended(ctx, callbacks, n.notify())
	if callbacks.Progress != nil {
		if params.Meta == nil {
			params.Meta = sdk.Meta{}
		}
		params.Meta[progressTokenKey] = n.tap.progressToken(x)
	}
	if callbacks.Log != nil && n.tap.link == nil {
		n.askForLogsOf(params)
	}
	carryTrace(ctx, params)
	inner := x.in(ctx)
	if n.process == nil { // an HTTP request goes on when its session has ended
		inner, x.cancel = context.WithCancel(inner)
		defer x.cancel()
	}
	_, err := n.client.CallTool(inner, params)
	n.tap.forget(x)
	x.settle(ctx)
	if err == nil {
		n.awaitRest(x)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.down {
		n.doubted.Store(true)
	}
	switch {
	case x.broken != nil:
		f := *x.broken
		if t.effect == steps.Read {
			f.Outcome = ""
		}
		if f.Outcome == "" && f.Status == 0 && t.effect != steps.Read { // an answer that cannot be read
			f.Outcome = fault.SentUnknown
		}
		return nil, &f
	case x.result != nil:
		if callbacks.Verbatim != nil {
			callbacks.Verbatim(x.result)
		}
		value, f, made := n.source.valueInTime(ctx, t, x.result)
		if made && (f == nil || ctx.Err() == nil) {
			return value, f // work that was done counts as done, also a moment too late
		}
	case x.err != nil && ctx.Err() == nil: // else it may only say that it was cancelled
		f := n.source.refusedBy(t, x.err.Get("code").Int(), x.err.Get("message").String(), x.err.Get("data").Raw)
		if x.direct {
			f.Err = n.source.wireErrorOf(*x.err)
		}
		return nil, f
	}
	return nil, n.unanswered(ctx, t, x, err)
}

// The members of _meta that carry a trace (MCP 2026-07-28, "_meta"; OpenTelemetry's semantic conventions for MCP).
const metaTraceParent, metaTraceState = "traceparent", "tracestate"

// carryTrace puts the trace of ctx into a call. Where there is one it takes the place of what a client has said, whose own
// trace it goes on with.
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

// noContent is what the SDK decodes in place of the result of a call.
func noContent(gjson.Result) []byte { return []byte(`{"content":[]}`) }

// unanswered says why no answer came. The caller holds x.mu.
func (n *session) unanswered(ctx context.Context, t *tool, x *exchange, err error) *fault.Error {
	s := n.source
	outcome := fault.NotSent
	switch {
	case x.reached && t.effect == steps.Read:
		outcome = "" // nothing can have been applied
	case x.reached:
		outcome = fault.SentUnknown
	}
	if ctx.Err() != nil {
		return stopped(ctx, t.function+" had not answered", outcome)
	}
	given, coded := fault.As(errors.Join(err, x.cause))
	wire := wireError(err)
	f := fault.New(fault.Unavailable, "%s: ", t.function)
	switch {
	case coded && given != nil:
		c := *given
		f = &c
	case wire != nil && statusCode(x.status) != fault.Denied:
		f := s.refusedBy(t, wire.Code, wire.Message, string(wire.Data))
		if x.direct {
			f.Err = s.clean(wire)
		}
		return f
	case x.status != 0:
		if errors.Is(err, sdk.ErrSessionMissing) {
			n.cancel()
		}
		f.Code, f.Status = statusCode(x.status), x.status
		f.Message += s.refusalText(x.status)
	case outcome == fault.NotSent && x.cause != nil:
		f.Message += s.options.where() + " could not be reached: " + s.told(x.cause)
		n.doubted.Store(true)
	case outcome == fault.NotSent:
		n.cancel()
		f.Message += "the connection was lost before it was sent"
	default:
		if n.process != nil {
			n.cancel() // it has no other connection
		}
		f.Message += "the connection was lost before the answer came"
		if t.effect != steps.Read {
			f.Message += ": it is not known whether its work was done"
		}
	}
	f.Err, f.Outcome = nil, outcome
	return f
}

// wireError is the JSON-RPC error that a server has answered with; nil when err is none. The SDK marks what its transport
// has not delivered with an error of the same type.
func wireError(err error) *jsonrpc.Error {
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) || wire.Code == codeUndelivered {
		return nil
	}
	return wire
}

// codeUndelivered is that of the SDK's mark, which it keeps in an internal package.
const codeUndelivered = -32005

// refusedBy is the fault of a JSON-RPC error (JSON-RPC 2.0, section 5.1).
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

// maxBody bounds what a failed call tells beside its message.
const maxBody = 64 << 10
