package transport

import (
	"context"
	"errors"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Request is a message that was admitted.
type Request struct {
	Caller  *steps.Caller // who has sent it
	Token   bool          // the caller is known by a token, and so apart from others
	Session *Session      // nil: the client has none
	Run     string        // the id by which logs know a call of a tool over HTTP; "": it has none

	server *Server
	from   *identity // nil: it did not come over HTTP
}

type requestKey struct{}

// Shared reports whether the caller's identity is that of other callers too: over HTTP without tokens, all have one.
func (r *Request) Shared() bool { return r.from != nil && !r.Token }

// RequestIn is the message whose context ctx is; nil: it did not come through Server.Receive.
func RequestIn(ctx context.Context) *Request {
	r, _ := ctx.Value(requestKey{}).(*Request)
	return r
}

// Receive is the first middleware of the SDK's servers, those for clients with sessions or the others. It finds the message's
// Request, and refuses it if its caller has lost its rights: from then on the message ends with them.
func (s *Server) Receive(sessions bool) sdk.Middleware {
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			r := s.request(ctx, req, sessions)
			if r.from != nil && r.from.decoded != nil {
				r.from.decoded()
			}
			ctx = context.WithValue(ctx, requestKey{}, r)
			if method == "subscriptions/listen" { // which is held as the stream that it is, and goes on with what is served next
				return next(ctx, method, req)
			}
			ctx, end := s.handler.Begin(ctx)
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

// Revoked is the answer to a message whose caller's rights have changed while it waited, before anything of it was done; nil: they
// have not.
func Revoked(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errRevoked) {
		return errRightsChanged
	}
	return nil
}

// request is the message that an SDK server has received.
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
			caller = &steps.Caller{}
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

// Start gives the context that a call of a tool runs in, which ends with the server's patience and with the client's session.
// It is refused if the caller runs as many as it may.
func (r *Request) Start(ctx context.Context) (_ context.Context, end func(), refused *fault.Error) {
	s := r.server
	most := s.o().Limits(r.Token).Calls
	allowed, ok := s.running.begin(r.Caller.ID, most)
	if !ok {
		var from *remote
		if r.from != nil {
			from = &r.from.remote
		}
		s.logRefusedCaller(ctx, r.Caller.ID, from, reasonBusy)
		return nil, nil, fault.New(fault.Busy, "%d of your calls are running, which is as many as may: wait until one has ended, and send this one again", most)
	}
	ended, ok := s.calls.begin(&s.calls.calls, r.from != nil && r.from.admitted)
	if !ok {
		allowed()
		return nil, nil, fault.New(fault.Unavailable, endingMessage+"nothing of this call was run")
	}
	ctx, stop := within(ctx, s.calls.life)
	if r.Session == nil {
		return ctx, func() { stop(); ended(); allowed() }, nil
	}
	r.Session.note(1)
	ctx, leave := within(ctx, r.Session.ctx)
	return ctx, func() { leave(); r.Session.note(-1); stop(); ended(); allowed() }, nil
}

// within gives a context that ends when another ends too, and for the same cause.
func within(ctx, life context.Context) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(life, func() { cancel(context.Cause(life)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
