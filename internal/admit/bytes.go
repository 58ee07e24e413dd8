package admit

import "sync"

// Bytes divides memory among callers. The zero value is ready to use and safe for concurrent use. Callers that hold nothing are
// forgotten.
type Bytes struct {
	mu        sync.Mutex
	held      int64 // the bytes held by all callers
	perCaller map[string]int64
}

// Hold reserves n bytes for a caller and reports whether it could. all is the limit for all callers together; 0: no limit. A negative n
// releases bytes and always succeeds.
//
// A caller may hold at most as much as then stays free. So one caller alone gets half of the limit, two get a third each, and something
// is always left for the next: the dynamic thresholds of shared buffers (Choudhury and Hahne, 1998).
func (b *Bytes) Hold(caller string, n, all int64) bool {
	if n == 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	callerBytes := b.perCaller[caller] + n
	if n > 0 && all > 0 && (n > all || callerBytes > all-b.held-n) {
		return false
	}
	if b.perCaller == nil {
		b.perCaller = map[string]int64{}
	}
	if b.perCaller[caller] = callerBytes; callerBytes == 0 {
		delete(b.perCaller, caller)
	}
	b.held += n
	return true
}

// Held returns the number of bytes held by all callers.
func (b *Bytes) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}
