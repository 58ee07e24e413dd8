package transport

import (
	"context"
	"errors"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Request is an admitted message.
type Request struct {
	Caller  *steps.Caller // the sender
	Token   bool          // the caller is identified by a token
	Session *Session      // nil: the client has none
	Run     string        // the run id of a tool call over HTTP; "": none

	server *Server
	from   *identity // nil: the message did not come over HTTP
}

type requestKey struct{}

// Shared reports whether other callers have the same identity, as all do over HTTP without tokens.
func (r *Request) Shared() bool { return r.from != nil && !r.Token }

// RequestIn returns the request of a context; nil: it did not come through Server.Receive.
func RequestIn(ctx context.Context) *Request {
	r, _ := ctx.Value(requestKey{}).(*Request)
	return r
}

// Receive is the first middleware of the SDK's servers. It attaches the message's Request to the context, refuses the message if
// its caller has lost its rights, and ends it if they are lost later. sessions is set for the server of clients with sessions.
func (s *Server) Receive(sessions bool) sdk.Middleware {
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			r := s.request(ctx, req, sessions)
			if r.from != nil && r.from.releaseSlot != nil {
				r.from.releaseSlot()
			}
			ctx = context.WithValue(ctx, requestKey{}, r)
			if method == methodListen { // a stream, which must not keep an old configuration alive
				return next(ctx, method, req)
			}
			ctx, end := s.handler.BeginMessage(ctx)
			defer end()
			if r.from == nil {
				return next(ctx, method, req)
			}
			ctx, release, refused := s.endWithRights(ctx, r.from)
			defer release()
			if refused != nil {
				return nil, refused
			}
			return next(ctx, method, req)
		}
	}
}

// Revoked returns the answer to a message whose caller's rights changed before the message was handled; nil: they have not.
func Revoked(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errRevoked) {
		return errRightsChanged
	}
	return nil
}

// request returns the Request of a message that an SDK server has received.
func (s *Server) request(ctx context.Context, req sdk.Request, sessions bool) *Request {
	extra := req.GetExtra()
	r := &Request{server: s, from: identityOf(ctx, extra)}
	if extra != nil {
		r.Run = extra.Header.Get(callHeader)
	}
	if r.from != nil {
		r.Caller, r.Token = r.from.Caller, r.from.token != ""
	}
	if ss, ok := req.GetSession().(*sdk.ServerSession); ok && sessions {
		caller := r.Caller
		if caller == nil {
			if caller, _ = ctx.Value(stdioCallerKey{}).(*steps.Caller); caller == nil {
				caller = &steps.Caller{}
			}
		}
		r.Session = s.session(ss, caller, r.from)
	}
	switch {
	case r.Session != nil && !r.Token:
		r.Caller = &r.Session.Caller
	case r.Caller == nil:
		r.Caller = &steps.Caller{}
	}
	return r
}

// Start begins a tool call. It returns the call's context, which also ends with the server and with the client's session; the caller
// calls end after the call. It refuses the call if
// the caller has reached its limit of running calls, or if the server is closing.
func (r *Request) Start(ctx context.Context) (_ context.Context, end func(), refused *fault.Error) {
	s := r.server
	maximum := s.opts().Limits(r.Token).Calls
	uncount, ok := s.running.acquire(r.Caller.ID, maximum)
	if !ok {
		var from *remote
		if r.from != nil {
			from = &r.from.remote
		}
		s.logRefusedCaller(ctx, r.Caller.ID, from, reasonBusy)
		return nil, nil, fault.New(fault.Busy, "%d of your calls are running, which is the limit: wait until one has ended, "+
			"then send this one again", maximum)
	}
	untrack, ok := s.calls.track(&s.calls.calls, r.from != nil && r.from.admitted)
	if !ok {
		uncount()
		return nil, nil, fault.New(fault.Unavailable, closingMessage+"nothing of this call was run")
	}
	ctx, stop := endWith(ctx, s.calls.ctx)
	if r.Session == nil {
		return ctx, func() { stop(); untrack(); uncount() }, nil
	}
	r.Session.addCalls(1)
	ctx, detach := endWith(ctx, r.Session.ctx)
	return ctx, func() { detach(); r.Session.addCalls(-1); stop(); untrack(); uncount() }, nil
}

// UntilEnd returns a context that also ends when calls of the client's session are cancelled. It is for waiting before Start.
func (r *Request) UntilEnd(ctx context.Context) (_ context.Context, end func()) {
	if r.Session == nil {
		return ctx, func() {}
	}
	return endWith(ctx, r.Session.ctx)
}

// MaxDetached returns how many runs of the caller may continue after their requests; -1: unlimited.
func (r *Request) MaxDetached() int { return r.server.opts().Limits(r.Token).Detached }

// Detach returns a context for work that continues after its request is answered. The context ends with the server, or when the caller
// loses its rights. A shutdown waits for the work as for a call, until end is called. Detach refuses the work if the caller has reached
// MaxDetached, or if the server is closing.
func (r *Request) Detach(ctx context.Context) (_ context.Context, end func(), refused *fault.Error) {
	s := r.server
	maximum := r.MaxDetached()
	uncount, ok := s.detached.acquire(r.Caller.ID, maximum)
	if !ok {
		return nil, nil, fault.New(fault.Busy, "%d of your runs are in the background, which is the limit: wait until one has "+
			"ended, then send this one again", maximum)
	}
	untrack, ok := s.calls.track(&s.calls.calls, r.from != nil && r.from.admitted)
	if !ok {
		uncount()
		return nil, nil, fault.New(fault.Unavailable, closingMessage+"nothing of this call was run")
	}
	ctx, stop := endWith(context.WithoutCancel(ctx), s.calls.ctx)
	if r.from == nil {
		return ctx, func() { stop(); untrack(); uncount() }, nil
	}
	ctx, release, rightsErr := s.endWithRights(ctx, r.from)
	end = func() { release(); stop(); untrack(); uncount() }
	if rightsErr != nil {
		end()
		return nil, nil, fault.New(fault.Denied, "%s", errRightsChanged.Message)
	}
	return ctx, end, nil
}

// endWith returns a context that also ends when other ends, with the same cause.
func endWith(ctx, other context.Context) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
