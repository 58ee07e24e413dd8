package chain

import (
	"context"

	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/fault"
)

// Admission divides processors and memory among callers (Caller.ID). It is safe for concurrent use.
type Admission interface {
	// Acquire waits until the caller may do a piece of heavy work, and returns the function that ends it. Admitted work must not wait for
	// anything, in particular not for another Acquire. The error is that of ctx.
	Acquire(ctx context.Context, caller string) (release func(), err error)
	// Hold takes n bytes for a caller and reports whether it succeeded. all is the limit for all callers together. A negative n returns
	// bytes and always succeeds.
	Hold(caller string, n, all int64) bool
}

// Acquire waits until the caller (Caller.ID) may do heavy work, and returns the function that ends it. A transport uses it for its own
// work on a request, and ends it before it calls Run or Call. The error is that of ctx.
func (e *Engine) Acquire(ctx context.Context, caller string) (release func(), err error) {
	return e.o.Admission.Acquire(ctx, caller)
}

// maxWorkBytes bounds the memory of evaluations, besides MaxChainBytes of results.
const maxWorkBytes = 64 << 20

// chargeResult counts a result, which is already held, against the chain's limit.
func (r *run) chargeResult(p *plan.Step, raw []byte) *fault.Error {
	if int64(len(raw)) > r.o.MaxResultBytes {
		return fault.New(fault.LimitExceeded, "the result has %d bytes, the limit is %d (limits.maxResultBytes)", len(raw),
			r.o.MaxResultBytes).Under(p.At)
	}
	if total := r.resultBytes.Add(int64(len(raw))); total > r.o.MaxChainBytes {
		r.resultBytes.Add(-int64(len(raw)))
		return fault.New(fault.LimitExceeded,
			"the results of this chain have more than %d bytes (limits.maxChainBytes): select less of them", r.o.MaxChainBytes).Under(p.At)
	}
	return nil
}

// holdResult holds the result of a call. If that fails, only a call that is safe to repeat is reported as retryable.
func (r *run) holdResult(p *plan.Step, n int) *fault.Error {
	f := r.o.Memory.Hold(n)
	if f == nil {
		return nil
	}
	if !p.Repeatable {
		f.Code = fault.LimitExceeded
		f.Message = plan.Describe(p) + " has run, and its result is lost: " + f.Message
	}
	return f.Under(p.At)
}
