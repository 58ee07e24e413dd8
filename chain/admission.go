package chain

import (
	"context"
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
