package admit

import (
	"sync"
	"sync/atomic"

	"github.com/onecall-mcp/onecall/fault"
)

// Held is the memory that one request holds, of the bytes that all requests share. It is safe for concurrent use once its fields are set.
type Held struct {
	Caller string
	From   interface { // Bytes, or what divides them; see Bytes.Hold
		Hold(caller string, n, all int64) bool
	}
	Total   int64 // the limit for all callers together
	MaxWork int64 // the limit of HoldWork for this request: of its evaluations and results together

	used  atomic.Int64 // bytes of results and arguments
	mu    sync.Mutex
	held  atomic.Int64 // bytes that From counts for the request, even after Release; written under mu
	ended bool         // the request has ended; guarded by mu
}

// freeBytes of each request are not counted: most chains never need more.
const freeBytes = 64 << 10

// Hold takes n bytes for a result or for arguments, until the request ends or Release returns them. It fails with busy.
func (h *Held) Hold(n int) *fault.Error {
	if h.used.Add(int64(n)) <= freeBytes+h.held.Load() {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	over := h.used.Load() - freeBytes - h.held.Load()
	if over <= 0 { // another goroutine has taken enough
		return nil
	}
	if h.ended { // a function that was left behind: nobody would return what it takes
		h.used.Add(int64(-n))
		return fault.New(fault.Cancelled, "the request has ended")
	}
	if h.From.Hold(h.Caller, over, h.Total) {
		h.held.Add(over)
		return nil
	}
	h.used.Add(int64(-n))
	return fault.New(fault.Busy,
		"%d more bytes exceed the memory of all running chains (limits.maxRunningBytes): send it "+
			"again when other chains have ended, or select less", n)
}

// HoldWork takes n bytes for the values of running evaluations. A negative n returns bytes and never fails. It fails with limit_exceeded
// or busy.
func (h *Held) HoldWork(n int) error {
	if n < 0 {
		h.Release(-n)
		return nil
	}
	if h.used.Load()+int64(n) > h.MaxWork {
		return fault.New(fault.LimitExceeded,
			"the expressions and results of this chain hold more than %d bytes at once (limits.maxChainBytes): select less of the results",
			h.MaxWork)
	}
	return h.Reserve(n)
}

// Reserve is Hold with an error as its result: a nil *fault.Error would not be a nil error.
func (h *Held) Reserve(n int) error {
	if f := h.Hold(n); f != nil {
		return f
	}
	return nil
}

// Sibling returns a count for other work of the same request, which holds nothing yet. Its End must be called.
func (h *Held) Sibling() *Held {
	return &Held{Caller: h.Caller, From: h.From, Total: h.Total, MaxWork: h.MaxWork}
}

// Release returns n bytes. From still counts them; the next Hold of this request uses them again.
func (h *Held) Release(n int) { h.used.Add(int64(-n)) }

// End returns everything to From. From counts nothing more for the request.
func (h *Held) End() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.From.Hold(h.Caller, -h.held.Load(), h.Total)
	h.held.Store(0)
	h.ended = true
}
