package transport

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

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

// RequestIn is the message whose context ctx is; nil: it did not come through Server.Receive.
func RequestIn(ctx context.Context) *Request {
	r, _ := ctx.Value(requestKey{}).(*Request)
	return r
}

// Receive is the first middleware of the SDK's servers, those for clients with sessions or the others. It finds the message's
// Request, and refuses it if its caller sends too much, or has lost its rights: from then on the message ends with them.
func (s *Server) Receive(sessions bool) sdk.Middleware {
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			r := s.request(ctx, req, sessions)
			if r.from != nil {
				r.from.counted.Store(true)
				if r.from.decoded != nil {
					r.from.decoded()
				}
			}
			ctx = context.WithValue(ctx, requestKey{}, r)
			if wait := s.take(ctx, method, r); wait > 0 {
				return s.handler.Refuse(ctx, method, r, s.tooOften(wait))
			}
			if method == "subscriptions/listen" { // which is held as the stream that it is, and goes on with what is served next
				return next(ctx, method, req)
			}
			ctx, end := s.handler.Begin(ctx)
			defer end()
			if r.from == nil {
				return next(ctx, method, req)
			}
			ctx, release, refused := s.hold(ctx, r.from)
			defer release()
			if refused != nil {
				return s.handler.Refuse(ctx, method, r, refused)
			}
			return next(ctx, method, req)
		}
	}
}

// Revoked says that the rights of a message's caller have changed while it waited, before anything of it was done; nil: they have
// not.
func Revoked(ctx context.Context) *fault.Error {
	if errors.Is(context.Cause(ctx), errRevoked) {
		return undone()
	}
	return nil
}

// request is the message that an SDK server has received.
func (s *Server) request(ctx context.Context, req sdk.Request, sessions bool) *Request {
	extra := req.GetExtra()
	r := &Request{server: s, from: identityOf(ctx, extra)}
	if extra != nil {
		r.Run = extra.Header.Get(CallHeader)
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

// sender is where the message came from; nil: not over HTTP.
func (r *Request) sender() *sender {
	if r.from == nil {
		return nil
	}
	return &r.from.sender
}

// Start gives the context that a call of a tool runs in, which ends with the server's patience and with the client's session.
// most is how many calls of the caller may run at once; -1: any number.
func (r *Request) Start(ctx context.Context, most int) (_ context.Context, end func(), refused *fault.Error) {
	s := r.server
	allowed, refused := s.callers.begin(r.Caller.ID, most)
	if refused != nil {
		s.refusedCaller(ctx, r.Caller.ID, r.sender(), RefusedRate)
		return nil, nil, refused
	}
	ctx, ended, refused := s.calls.start(ctx, r.from != nil && r.from.admitted)
	if refused != nil {
		allowed()
		return nil, nil, refused
	}
	if r.Session == nil {
		return ctx, func() { ended(); allowed() }, nil
	}
	ctx, stop := r.Session.within(ctx)
	return ctx, func() { stop(); ended(); allowed() }, nil
}

// take counts a message, and gives how long to wait if that is too many.
func (s *Server) take(ctx context.Context, method string, r *Request) (wait time.Duration) {
	if s.o().Limits.PerSecond == 0 || method == "ping" || strings.HasPrefix(method, "notifications/") {
		return 0
	}
	return s.takeFor(ctx, r.Caller.ID, r.sender())
}

// takeFor counts a request of a caller, and gives how long to wait if that is too many.
func (s *Server) takeFor(ctx context.Context, caller string, from *sender) (wait time.Duration) {
	limits := &s.o().Limits
	if limits.PerSecond == 0 {
		return 0
	}
	if wait = s.callers.take(caller, limits); wait > 0 {
		s.refusedCaller(ctx, caller, from, RefusedRate)
	}
	return wait
}

// tooOften says that a request was one too many.
func (s *Server) tooOften(wait time.Duration) *fault.Error {
	return fault.New(fault.Busy, "you may make %v requests a second: send this one again in %d s", s.o().Limits.PerSecond, int(math.Ceil(wait.Seconds())))
}
