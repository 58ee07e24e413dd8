package transport

import "sync"

// counts are how much of something each caller has at the moment. The zero value is ready for use, by many goroutines at once.
// Callers that have nothing are forgotten.
type counts struct {
	mu sync.Mutex
	by map[string]int
}

// begin counts one more of a caller, until end is called; most -1: any number. ok is false if the caller has as many as it may.
func (c *counts) begin(caller string, most int) (end func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.by[caller]
	if most >= 0 && n >= most {
		return nil, false
	}
	if c.by == nil {
		c.by = map[string]int{}
	}
	c.by[caller] = n + 1
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.by[caller]--; c.by[caller] == 0 {
			delete(c.by, caller)
		}
	}, true
}
