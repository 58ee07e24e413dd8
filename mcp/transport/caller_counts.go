package transport

import "sync"

// callerCounts counts something for each caller. The zero value is ready to use, and it is safe for concurrent use. Callers with
// a count of zero take no memory.
type callerCounts struct {
	mu       sync.Mutex
	byCaller map[string]int
}

// acquire adds one to a caller's count until release is called. It returns false if the caller has reached limit; limit -1: no
// limit.
func (c *callerCounts) acquire(caller string, limit int) (release func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.byCaller[caller]
	if limit >= 0 && n >= limit {
		return nil, false
	}
	if c.byCaller == nil {
		c.byCaller = map[string]int{}
	}
	c.byCaller[caller] = n + 1
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.byCaller[caller]--; c.byCaller[caller] == 0 {
			delete(c.byCaller, caller)
		}
	}, true
}
