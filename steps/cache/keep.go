package cache

import "time"

// sweepEvery is how often what has expired is let go of when nothing asks for it.
const sweepEvery = time.Minute

// overhead is what an answer takes in memory beside its bytes.
const overhead = 512

func size(answer int) int64 { return int64(answer) + overhead }

// fits reports whether an answer of that length may be kept.
func (c *Cache) fits(answer int) bool { return size(answer) <= c.options.MaxBytes/4 }

// keep makes of a read that has landed one that is kept. Cache.mu is held.
func (c *Cache) keep(r *read, answer []byte) {
	r.flight, r.answer = nil, answer[:len(answer):len(answer)]
	c.bytes += size(len(answer))
	c.kept.Add(r.key, r)
	for c.bytes > c.options.MaxBytes {
		c.kept.RemoveOldest()
	}
	if c.sweeper == nil {
		c.sweeper = time.AfterFunc(sweepEvery, c.sweep)
	}
}

// drop forgets a read: it is answered to nobody who comes from now on. Cache.mu is held.
func (c *Cache) drop(r *read) {
	if r.flight != nil {
		delete(c.flights, r.key)
		r.forget()
		return
	}
	c.kept.Remove(r.key)
}

// evicted is told of every read that leaves kept.
func (c *Cache) evicted(_ key, r *read) {
	c.bytes -= size(len(r.answer))
	r.forget()
}

// sweep lets go of what has expired, and comes again while anything is kept.
func (c *Cache) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, r := range c.kept.Values() {
		if !r.fresh(now, r.ttl) {
			c.kept.Remove(r.key)
		}
	}
	c.sweeper = nil
	if c.kept.Len() > 0 {
		c.sweeper = time.AfterFunc(sweepEvery, c.sweep)
	}
}
