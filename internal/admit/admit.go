// Package admit divides shared resources among the callers of a process: memory, processors, and concurrent calls of a server.
package admit

import (
	"context"
	"runtime"
	"sync/atomic"
)

// Limiter divides memory and processors among callers. It implements chain.Admission.
type Limiter struct {
	Bytes
	slots *slots
}

// slotsPerProcessor is how many pieces of heavy work of different callers share a processor. Go's scheduler divides time between them
// better than a queue, in which short work would wait for long work.
const slotsPerProcessor = 8

// Default returns the limiter of a process. If the process may use several processors (GOMAXPROCS), a single caller's heavy work leaves
// one of them to others.
func Default() *Limiter {
	n := runtime.GOMAXPROCS(0)
	return New(max(n-1, 1), n*slotsPerProcessor)
}

// New returns a limiter of concurrent heavy work: perCaller pieces for one caller, total for all callers together.
func New(perCaller, total int) *Limiter { return &Limiter{slots: newSlots(perCaller, total)} }

// Acquire waits for a slot for heavy work of a caller. release frees it. Work with a slot must not wait for anything, least of all for
// another slot. The error is the context's, and release is then nil.
func (l *Limiter) Acquire(ctx context.Context, caller string) (release func(), err error) {
	return l.slots.acquire(ctx, caller)
}

// Request is the request that a computation belongs to, carried by its context (WithRequest).
type Request struct {
	Caller string
	Slots  interface { // nil: unlimited
		Acquire(ctx context.Context, caller string) (release func(), err error)
	}
	Memory interface{ HoldWork(n int) error } // holds memory for computations; a negative n releases bytes and never fails; nil: unlimited

	pieces atomic.Int64 // the pieces of light work counted so far
}

// freePieces is how many pieces of light work of a request need no slot.
const freePieces = 16

type requestKey struct{}

// WithRequest returns a context for the work of a request.
func WithRequest(ctx context.Context, r *Request) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

// unbound stands for the request of a context without one: it has no limits.
var unbound = &Request{}

func requestOf(ctx context.Context) *Request {
	if r, ok := ctx.Value(requestKey{}).(*Request); ok {
		return r
	}
	return unbound
}

// Hold reserves n bytes of memory for the context's request; a negative n releases bytes.
func Hold(ctx context.Context, n int) error {
	if m := requestOf(ctx).Memory; n != 0 && m != nil {
		return m.HoldWork(n)
	}
	return nil
}

// NeedsSlot counts a piece of light work of the context's request, and reports whether it needs a slot: many light pieces together are
// heavy, so only the first freePieces need none. It reports false if the request's slots are unlimited.
func NeedsSlot(ctx context.Context) bool {
	r := requestOf(ctx)
	return r.Slots != nil && r.pieces.Add(1) > freePieces
}

// Slot admits one computation. The zero value holds no slot. Release must be called at the end.
type Slot struct{ release func() }

// Acquire waits for a slot unless it already holds one. Call it once work turns out to be heavy, and again to check whether the context
// has ended. An error is the context's, and frees the slot.
func (s *Slot) Acquire(ctx context.Context) error {
	if r := requestOf(ctx); s.release == nil && r.Slots != nil {
		release, err := r.Slots.Acquire(ctx, r.Caller)
		if err != nil {
			return err
		}
		s.release = release
	}
	err := ctx.Err()
	if err != nil {
		s.Release() // the context may have ended at admission, and callers need not release after an error
	}
	return err
}

// Release frees the slot, if there is one.
func (s *Slot) Release() {
	if s.release != nil {
		s.release()
		s.release = nil
	}
}
