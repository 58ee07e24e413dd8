package cache

import "time"

// sweepEvery is the interval at which expired answers are dropped.
const sweepEvery = time.Minute

// overhead is the memory of an answer besides its bytes.
const overhead = 512

func size(answer int) int64 { return int64(answer) + overhead }

// canStore reports whether an answer of this length may be stored.
func (c *Cache) canStore(answer int) bool { return size(answer) <= c.options.MaxBytes/4 }

// store stores the answer of a read that has ended. Cache.mu is held.
func (c *Cache) store(r *cachedRead, answer []byte) {
	r.flight, r.answer = nil, answer[:len(answer):len(answer)]
	c.bytes += size(len(answer))
	c.stored.Add(r.key, r)
	for c.bytes > c.options.MaxBytes {
		c.stored.RemoveOldest()
	}
	if c.sweeper == nil {
		c.sweeper = time.AfterFunc(sweepEvery, c.sweep)
	}
}

// drop drops a read: no later call gets its answer. Cache.mu is held.
func (c *Cache) drop(r *cachedRead) {
	if r.flight != nil {
		delete(c.flights, r.key)
		r.forget()
		return
	}
	c.stored.Remove(r.key)
}

// onEvict is called for every read that is removed from stored.
func (c *Cache) onEvict(_ key, r *cachedRead) {
	c.bytes -= size(len(r.answer))
	r.forget()
}

// sweep drops expired answers, and schedules itself while any are stored.
func (c *Cache) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, r := range c.stored.Values() {
		if !r.fresh(now, r.ttl) {
			c.stored.Remove(r.key)
		}
	}
	c.sweeper = nil
	if c.stored.Len() > 0 {
		c.sweeper = time.AfterFunc(sweepEvery, c.sweep)
	}
}
