package admit

import (
	"context"
	"errors"

	"github.com/onecall-mcp/onecall/fault"
)

// Server limits the concurrent calls of a server that callers share. At most n calls of one caller are ahead of another caller's. A nil
// Server has no limit.
type Server struct {
	name  string
	n     int
	slots *slots
}

// NewServer allows n concurrent calls of a server. It returns nil if n is 0 or less.
func NewServer(name string, n int) *Server {
	if n <= 0 {
		return nil
	}
	return &Server{name, n, newSlots(n, n)}
}

// Acquire waits until the context's caller (Request) may call the server. release ends the call. Contexts without a request count as one
// caller. Errors are for calls that were never sent: timeout, cancelled, or the fault that the context was cancelled with.
func (s *Server) Acquire(ctx context.Context) (release func(), f *fault.Error) {
	if s == nil {
		return func() {}, nil
	}
	release, err := s.slots.acquire(ctx, requestOf(ctx).Caller)
	if err == nil {
		return release, nil
	}
	code, why := fault.Cancelled, "it was cancelled"
	if errors.Is(err, context.DeadlineExceeded) {
		code, why = fault.Timeout, "its deadline passed"
	}
	f = fault.New(code, "the concurrency of %s is limited to %d, and this call was still waiting for its turn when %s", s.name, s.n, why)
	f.Err = fault.ErrWaiting
	if given, ok := fault.As(context.Cause(ctx)); ok && given != nil {
		copied := *given
		f = &copied
	}
	f.Outcome = fault.NotSent
	return nil, f
}
