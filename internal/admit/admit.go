// Package admit divides what all callers of a process share: bytes of memory, processors, and the calls that a server takes at
// once.
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

// slotsPerProcessor is how many pieces of heavy work share a processor at most. They are the work of different callers, between
// whom Go's scheduler divides time better than a queue does: a short piece would wait there until long ones have ended.
const slotsPerProcessor = 8

// Default makes the limiter of a process. One caller's heavy work leaves a processor to others, if there are two.
func Default() *Limiter {
	n := runtime.GOMAXPROCS(0)
	return New(max(n-1, 1), n*slotsPerProcessor)
}

// New makes a limiter that admits so many pieces of heavy work at once: of each caller, and of all callers.
func New(each, all int) *Limiter { return &Limiter{slots: newSlots(each, all)} }

// Acquire waits until a piece of heavy work of a caller may go on, and returns what ends it. Work that has a slot must not wait
// for anything, least of all for another slot. The error is the context's, when it ends first.
func (l *Limiter) Acquire(ctx context.Context, caller string) (release func(), err error) {
	return l.slots.acquire(ctx, caller)
}

// Request is the request on whose behalf something is computed, carried by its context (With).
type Request struct {
	Caller string
	Slots  interface { // nil: without a bound
		Acquire(ctx context.Context, caller string) (release func(), err error)
	}
	Memory interface{ HoldWork(n int) error } // of the request's computing; a negative n gives bytes back and never fails. nil: without a bound

	pieces atomic.Int64 // of computing, so far
}

// freePieces of light work of each request need no slot.
const freePieces = 16

type requestKey struct{}

// With returns a context for the work of a request.
func With(ctx context.Context, r *Request) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

var unbound = &Request{}

func requestOf(ctx context.Context) *Request {
	if r, ok := ctx.Value(requestKey{}).(*Request); ok {
		return r
	}
	return unbound
}

// Hold takes n bytes of the memory of the context's request, or gives back -n.
func Hold(ctx context.Context, n int) error {
	if m := requestOf(ctx).Memory; n != 0 && m != nil {
		return m.HoldWork(n)
	}
	return nil
}

// Many counts a piece of light work of the context's request, and reports whether there are so many that each needs a slot:
// together they are as heavy as a large one.
func Many(ctx context.Context) bool {
	r := requestOf(ctx)
	return r.Slots != nil && r.pieces.Add(1) > freePieces
}

// Slot admits one piece of computing. The zero value holds no slot; Release must be called in the end.
type Slot struct{ release func() }

// Acquire waits for a slot unless it holds one. Work calls it once it turns out to be heavy, and may call it again, to see
// whether the context has ended: that is its error, and then the slot is given back.
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
		s.Release() // the context may have ended as it was admitted, and whoever sees an error need not release
	}
	return err
}

// Release gives back the slot, if there is one.
func (s *Slot) Release() {
	if s.release != nil {
		s.release()
		s.release = nil
	}
}
