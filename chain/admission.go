package chain

import (
	"context"
	"errors"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
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

// A plan is heavy work if it has this many steps or takes this long. A step is compiled within 20 µs, but one of its patterns may take 20
// ms.
const heavySteps, heavyPlanning = 64, 5 * time.Millisecond

// heavyRequest is the size in bytes from which a request is heavy work to decode and to compile.
const heavyRequest = 256 << 10

// Acquire waits until the caller (Caller.ID) may do heavy work, and returns the function that ends it. A transport uses it for its own
// work on a request, and ends it before it calls Run or Call. The error is that of ctx.
func (e *Engine) Acquire(ctx context.Context, caller string) (release func(), err error) {
	return e.o.Admission.Acquire(ctx, caller)
}

// abandonedFault is the fault for a request whose context ended before anything ran. doing is what was being done: "read" or "checked".
func abandonedFault(ctx context.Context, err error, doing string) *fault.Error {
	if causeFault, ok := fault.As(context.Cause(ctx)); ok && causeFault != nil {
		return causeFault
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fault.New(fault.Timeout, "the caller's deadline passed while the request was %s: nothing ran", doing)
	}
	return fault.New(fault.Cancelled, "the request was cancelled while it was %s: nothing ran", doing)
}

// planGuard bounds the compilation of a request: it takes a slot for heavy work if it takes long, and ends with its context.
type planGuard struct {
	ctx     context.Context
	large   bool      // the request is large: its compilation is heavy from the first step on
	since   time.Time // when the context was last checked
	slot    admit.Slot
	failure *fault.Error // why decoding or compilation was cut off; nil: it was not
}

// proceed reports whether step n, counted from 1, may be compiled. Once compilation turns out to be heavy, it waits for a slot.
func (p *planGuard) proceed(n int) bool {
	if p.failure != nil || !p.large && n%heavySteps != 0 && time.Since(p.since) < heavyPlanning {
		return p.failure == nil
	}
	if err := p.slot.Acquire(p.ctx); err != nil {
		p.failure = abandonedFault(p.ctx, err, "checked")
	}
	p.since = time.Now()
	return p.failure == nil
}

// maxWorkBytes bounds the memory of evaluations, besides MaxChainBytes of results.
const maxWorkBytes = 64 << 20

// chargeResult counts a result, which is already held, against the chain's limit.
func (r *run) chargeResult(p *plannedStep, raw []byte) *fault.Error {
	if int64(len(raw)) > r.o.MaxResultBytes {
		return fault.New(fault.LimitExceeded, "the result has %d bytes, the limit is %d (limits.maxResultBytes)", len(raw),
			r.o.MaxResultBytes).Under(p.at)
	}
	if total := r.resultBytes.Add(int64(len(raw))); total > r.o.MaxChainBytes {
		r.resultBytes.Add(-int64(len(raw)))
		return fault.New(fault.LimitExceeded,
			"the results of this chain have more than %d bytes (limits.maxChainBytes): select less of them", r.o.MaxChainBytes).Under(p.at)
	}
	return nil
}

// holdResult holds the result of a call. If that fails, only a call that is safe to repeat is reported as retryable.
func (r *run) holdResult(p *plannedStep, n int) *fault.Error {
	f := r.memory.Hold(n)
	if f == nil {
		return nil
	}
	if !p.repeatable {
		f.Code = fault.LimitExceeded
		f.Message = describe(p) + " has run, and its result is lost: " + f.Message
	}
	return f.Under(p.at)
}
