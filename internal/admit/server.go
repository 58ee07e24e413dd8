package admit

import (
	"context"
	"errors"

	"github.com/onecall-mcp/onecall/fault"
)

// Server bounds how many calls are under way at once at a server that callers share. However much one of them asks for, at most
// n of its calls are ahead of another's. A nil Server has no bound.
type Server struct {
	name  string
	n     int
	slots *slots
}

// NewServer allows n calls at once at the server with that name. It is nil if n is 0 or less.
func NewServer(name string, n int) *Server {
	if n <= 0 {
		return nil
	}
	return &Server{name, n, newSlots(n, n)}
}

// Acquire waits until the context's caller (Request) may call the server, and returns what ends the call. Contexts without a
// request count as one caller. Errors, of calls that never left: timeout, cancelled, and the fault that the context was ended with.
func (s *Server) Acquire(ctx context.Context) (release func(), f *fault.Error) {
	if s == nil {
		return func() {}, nil
	}
	release, err := s.slots.acquire(ctx, requestOf(ctx).Caller)
	if err == nil {
		return release, nil
	}
	code, why := fault.Cancelled, "the call was cancelled"
	if errors.Is(err, context.DeadlineExceeded) {
		code, why = fault.Timeout, "the time of the call was over"
	}
	f = fault.New(code, "%s is called %d times at once at most (concurrency), and this call was still waiting for its turn when %s", s.name, s.n, why)
	f.Err = fault.ErrWaiting
	if given, ok := fault.As(context.Cause(ctx)); ok && given != nil {
		told := *given
		f = &told
	}
	f.Outcome = fault.NotSent
	return nil, f
}
