package chain

import (
	"sync"
	"sync/atomic"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/share"
)

// freeBytes of each exchange are not counted: most chains never need more.
const freeBytes = 64 << 10

// freeCalls of each chain are made without a turn.
const freeCalls = 8

// holding is what an exchange holds of the bytes that all running chains share.
type holding struct {
	part share.Part   // the caller's
	used atomic.Int64 // bytes of results and arguments
	mu   sync.Mutex
	held atomic.Int64 // of these, those taken of the part; written under mu
}

// hold takes bytes for a result or for arguments. What was taken of the part is the caller's until the exchange ends.
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
	if h.part.Hold(over) {
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

// spared tells that n bytes are not needed any more; the next that are wanted take their place.
func (h *holding) spared(n int) { h.used.Add(int64(-n)) }

// release gives back what is held.
func (h *holding) release() { h.part.Release(h.held.Load()) }
