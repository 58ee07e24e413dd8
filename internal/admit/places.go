package admit

import (
	"context"
	"errors"

	"github.com/onecall-mcp/onecall/fault"
)

// Places bound how many calls are under way at once at a server that callers share: they get a place in turn, whatever each of
// them waits for. So who comes to a server of one place waits for one call of each of the others, not for all that they have
// to ask. The nil Places have no bound.
type Places struct {
	name   string
	n      int
	shares *Shares
}

// NewPlaces are n places at the server of that name; nil where n is 0 or less.
func NewPlaces(name string, n int) *Places {
	if n <= 0 {
		return nil
	}
	return &Places{name, n, New(n)}
}

// Enter waits for a place on behalf of the caller that the context names (With; those that none is named for are one), and gives
// what gives it back. Errors, of calls that never left: timeout, cancelled, and the fault that the context was ended with.
func (p *Places) Enter(ctx context.Context) (leave func(), f *fault.Error) {
	if p == nil {
		return func() {}, nil
	}
	err := p.shares.enter(ctx, From(ctx).id)
	if err == nil {
		return p.shares.leave, nil
	}
	code, why := fault.Cancelled, "the call was cancelled"
	if errors.Is(err, context.DeadlineExceeded) {
		code, why = fault.Timeout, "the time of the call was over"
	}
	f = fault.New(code, "%s is called %d times at once at most (concurrency), and this call was still waiting for its turn when %s", p.name, p.n, why)
	f.Err = fault.ErrWaiting
	if given, ok := fault.As(context.Cause(ctx)); ok && given != nil {
		told := *given
		f = &told
	}
	f.Outcome = fault.NotSent
	return nil, f
}
