package callcache

import "time"

// sweepEvery is how often what has expired is let go of when nothing asks for it.
const sweepEvery = time.Minute

// overhead is what an answer takes in memory beside its bytes and paths.
const overhead = 512

func (r *read) size(answer int) int64 {
	size := int64(answer) + overhead
	for _, p := range r.paths {
		size += int64(len(p.text)) + 24
	}
	return size
}

// fits tells whether an answer of that length may be kept.
func (c *Cache) fits(r *read, answer int) bool { return r.size(answer) <= c.options.MaxBytes/4 }

// keep makes of a read that has landed one that is kept. It stays in its group. Cache.mu is held.
func (c *Cache) keep(r *read, answer []byte) {
	r.flight, r.answer = nil, answer[:len(answer):len(answer)]
	c.bytes += r.size(len(answer))
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
		r.group.remove(r)
		return
	}
	c.kept.Remove(r.key)
}

// evicted is told of every read that leaves kept.
func (c *Cache) evicted(_ key, r *read) {
	c.bytes -= r.size(len(r.answer))
	r.group.remove(r)
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

// source is what is known of a source's reads and writes. It is guarded by Cache.mu.
type source struct {
	groups map[string]*group
	writes map[*write]struct{} // that run, or of which nobody knows whether they were done
}

// group holds the reads with one resource.
type group struct {
	source   *source
	name     string
	resource []string
	reads    []*read
}

func (c *Cache) source(name string) *source {
	s := c.sources[name]
	if s == nil {
		s = &source{groups: map[string]*group{}, writes: map[*write]struct{}{}}
		c.sources[name] = s
	}
	return s
}

func (s *source) add(f *function, r *read) {
	g := s.groups[f.group]
	if g == nil {
		g = &group{source: s, name: f.group, resource: f.resource}
		s.groups[f.group] = g
	}
	r.group, r.at = g, len(g.reads)
	g.reads = append(g.reads, r)
}

// remove takes a read out of its group; an empty group goes, too.
func (g *group) remove(r *read) {
	last := len(g.reads) - 1
	moved := g.reads[last]
	g.reads[r.at], moved.at = moved, r.at
	g.reads[last] = nil
	g.reads = g.reads[:last]
	r.group = nil
	if last == 0 {
		delete(g.source.groups, g.name)
	}
}
