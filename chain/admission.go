package chain

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
)

// Admission divides processors and memory among callers (Caller.ID). It is safe for use by many goroutines at once.
type Admission interface {
	// Acquire waits until a piece of heavy work of a caller may go on, and returns what ends it. Work that was admitted waits for
	// nothing, least of all to be admitted again. The error is the context's, when it ends first.
	Acquire(ctx context.Context, caller string) (release func(), err error)
	// Hold takes n bytes for a caller, of so many for all callers together, or reports that it may not. A negative n gives bytes
	// back, which always succeeds.
	Hold(caller string, n, all int64) bool
}

// freeBytes of each exchange are not counted: most chains never need more.
const freeBytes = 64 << 10

// A plan is heavy work from so many steps on, or so much time: a step is made within 20 µs, or one of its patterns takes 20 ms.
const heavySteps, heavyPlanning = 64, 5 * time.Millisecond

// heavyRequest is from how many bytes on a request is heavy work to read and to plan.
const heavyRequest = 256 << 10

// Acquire waits until heavy work for a caller (Caller.ID) may go on, and returns what ends it. A transport uses it for what it
// does with a request before Run or Call, and releases it before that. The error is the context's, when it ends first.
func (e *Engine) Acquire(ctx context.Context, caller string) (release func(), err error) {
	return e.o.Admission.Acquire(ctx, caller)
}

// abandoned is the fault of a request whose context ended before anything ran.
func abandoned(ctx context.Context, err error, what string) *fault.Error {
	if given, ok := fault.As(context.Cause(ctx)); ok && given != nil {
		return given
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fault.New(fault.Timeout, "the caller's deadline passed while the request was %s: nothing of it ran", what)
	}
	return fault.New(fault.Cancelled, "the request was cancelled while it was %s: nothing of it ran", what)
}

// pace is how a request is planned: if that takes long it needs a slot, and ends with its context.
type pace struct {
	ctx   context.Context
	large bool      // the request is: its plan is heavy from the first step on
	since time.Time // the context was looked at
	slot  admit.Slot
	ended *fault.Error // why the plan is not made; nil: it is
}

// goesOn is asked before step n, from 1 on, is planned.
func (p *pace) goesOn(n int) bool {
	if p.ended != nil || !p.large && n%heavySteps != 0 && time.Since(p.since) < heavyPlanning {
		return p.ended == nil
	}
	if err := p.slot.Acquire(p.ctx); err != nil {
		p.ended = abandoned(p.ctx, err, "checked")
	}
	p.since = time.Now()
	return p.ended == nil
}

// holding is what an exchange holds of the bytes that all running chains share.
type holding struct {
	admission Admission
	caller    string
	all       int64 // that all callers may hold together

	used atomic.Int64 // bytes of results and arguments
	mu   sync.Mutex
	held atomic.Int64 // of these, those that the admission counts; written under mu
}

// hold takes bytes for a result or for arguments. They are the caller's until the exchange ends.
func (h *holding) hold(n int) *fault.Error {
	if h.used.Add(int64(n)) <= freeBytes+h.held.Load() {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	over := h.used.Load() - freeBytes - h.held.Load()
	if over <= 0 { // another has taken it as well
		return nil
	}
	if h.admission.Hold(h.caller, over, h.all) {
		h.held.Add(over)
		return nil
	}
	h.used.Add(int64(-n))
	return fault.New(fault.Busy, "%d more bytes are too many beside what your chains and those of others hold while they run (limits.maxRunningBytes): send it again when others have ended, or select less", n)
}

// holdKept is hold for values that are fetched.
func (h *holding) holdKept(n int) error {
	if f := h.hold(n); f != nil {
		return f
	}
	return nil
}

// maxWorkBytes is what the evaluations of a chain may hold beside MaxChainBytes of results.
const maxWorkBytes = 64 << 20

// HoldWork counts the values of evaluations that run (admit.Request).
func (s *exchange) HoldWork(n int) error {
	if n < 0 {
		s.spared(-n)
		return nil
	}
	if s.used.Load()+int64(n) > s.o.MaxChainBytes+maxWorkBytes {
		return fault.New(fault.LimitExceeded, "the expressions and results of this chain hold more than %d bytes at once (limits.maxChainBytes): select less of the results",
			s.o.MaxChainBytes+maxWorkBytes)
	}
	if f := s.hold(n); f != nil {
		return f
	}
	return nil
}

// spared tells that n bytes are not needed any more; the next that are wanted take their place.
func (h *holding) spared(n int) { h.used.Add(int64(-n)) }

// release gives back what is held.
func (h *holding) release() { h.admission.Hold(h.caller, -h.held.Load(), h.all) }

// keep charges a result, which is held already, to the chain's bytes.
func (r *run) keep(p *plannedStep, raw []byte) *fault.Error {
	if int64(len(raw)) > r.o.MaxResultBytes {
		return fault.New(fault.LimitExceeded, "the result has %d bytes, the limit is %d (limits.maxResultBytes)", len(raw), r.o.MaxResultBytes).Under(p.at)
	}
	if kept := r.bytes.Add(int64(len(raw))); kept > r.o.MaxChainBytes {
		r.bytes.Add(-int64(len(raw)))
		return fault.New(fault.LimitExceeded, "the results of this chain have more than %d bytes (limits.maxChainBytes): select less of them", r.o.MaxChainBytes).Under(p.at)
	}
	return nil
}

// holdResult holds what a call has given. Where that cannot be, only what is safe to repeat may be sent again.
func (r *run) holdResult(p *plannedStep, n int) *fault.Error {
	f := r.hold(n)
	if f == nil {
		return nil
	}
	if !p.repeatable {
		f.Code = fault.LimitExceeded
		f.Message = describe(p) + " has run, and its result is lost: " + f.Message
	}
	return f.Under(p.at)
}
