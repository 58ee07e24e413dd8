package admit

import "sync"

// Bytes divides memory among callers. The zero value is ready for use, by many goroutines at once. Callers that hold nothing
// are forgotten.
type Bytes struct {
	mu   sync.Mutex
	held int64 // by all callers
	by   map[string]int64
}

// Hold takes n bytes for a caller, or none, of so many for all callers together; all 0 is no bound. A negative n gives bytes
// back, which always succeeds.
//
// A caller holds at most as much as is left for others. One caller alone gets half of all, two get a third each, and something
// is always left for the next: the dynamic thresholds of shared buffers (Choudhury and Hahne, 1998).
func (b *Bytes) Hold(caller string, n, all int64) bool {
	if n == 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.by[caller] + n
	if n > 0 && all > 0 && (n > all || own > all-b.held-n) {
		return false
	}
	if b.by == nil {
		b.by = map[string]int64{}
	}
	if b.by[caller] = own; own == 0 {
		delete(b.by, caller)
	}
	b.held += n
	return true
}

// Held is how many bytes all callers hold.
func (b *Bytes) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}
