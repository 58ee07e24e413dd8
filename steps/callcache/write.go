package callcache

import (
	"context"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// settling is how long after a call without a known outcome its source may still be at the work.
const settling = 30 * time.Second

// maxSettling bounds the writes of one source that are remembered while they settle: more count as one that touches all.
const maxSettling = 32

// write is a call that may change what reads answer. The zero value touches all reads of its source.
type write struct {
	resource []string
	paths    []path    // nil: unknown
	until    time.Time // zero: it runs
}

// touches is the table of the package's documentation.
func (w *write) touches(resource []string, paths []path) bool {
	switch {
	case len(w.resource) > 0 && len(resource) > 0:
		return relatedResources(w.resource, resource)
	case len(w.resource) == 0 && len(resource) == 0 && w.paths != nil && paths != nil:
		return relatedPaths(w.paths, paths)
	}
	return true
}

// writing makes the call of a function that does not read.
func (c *Cache) writing(f *function, next steps.Call) steps.Call {
	return func(ctx context.Context, args []byte) (result []byte, err error) {
		w := &write{resource: f.resource, paths: f.paths(args)}
		c.begin(f.source, w)
		returned := false
		defer func() { c.end(f.source, w, !returned || fault.OutcomeOf(err) == fault.SentUnknown) }()
		result, err = next(ctx, args)
		returned = true
		return result, err
	}
}

// begin drops what the write may touch. Until its end no read that it may touch is kept, joined or answered from what is
// kept: so there is nothing to drop then.
func (c *Cache) begin(name string, w *write) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.source(name).writes[w] = struct{}{}
	for _, s := range c.reachedFrom(name) {
		c.invalidate(s, w)
	}
}

// end lets reads be kept again, at once or, after a call that broke off, when it has settled.
func (c *Cache) end(name string, w *write, broken bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.source(name)
	if !broken {
		delete(s.writes, w)
		return
	}
	now := time.Now()
	w.until = now.Add(settling)
	s.settle(now)
	if s.settling() <= maxSettling {
		return
	}
	for other := range s.writes {
		if !other.until.IsZero() {
			delete(s.writes, other)
		}
	}
	s.writes[&write{until: w.until}] = struct{}{}
}

// settle forgets the writes that have settled.
func (s *source) settle(now time.Time) {
	for w := range s.writes {
		if !w.until.IsZero() && !now.Before(w.until) {
			delete(s.writes, w)
		}
	}
}

func (s *source) settling() (n int) {
	for w := range s.writes {
		if !w.until.IsZero() {
			n++
		}
	}
	return n
}

// reachedFrom gives the sources whose reads a write of a source may touch: its own, or all where it has none.
func (c *Cache) reachedFrom(name string) []*source {
	if name != "" {
		if s := c.sources[name]; s != nil {
			return []*source{s}
		}
		return nil
	}
	all := make([]*source, 0, len(c.sources))
	for _, s := range c.sources {
		all = append(all, s)
	}
	return all
}

// invalidate drops the reads of a source that the write may touch.
func (c *Cache) invalidate(s *source, w *write) {
	for _, g := range s.groups {
		if !w.touches(g.resource, nil) {
			continue // whatever the paths
		}
		for i := len(g.reads) - 1; i >= 0; i-- { // what takes the place of one that is dropped was looked at already
			if r := g.reads[i]; w.touches(g.resource, r.paths) {
				c.drop(r)
			}
		}
	}
}

// beingWritten tells whether a write that may touch the read runs or settles.
func (c *Cache) beingWritten(f *function, paths []path) bool {
	for _, name := range []string{f.source, ""} {
		s := c.sources[name]
		if s == nil || len(s.writes) == 0 {
			continue
		}
		s.settle(time.Now())
		for w := range s.writes {
			if w.touches(f.resource, paths) {
				return true
			}
		}
	}
	return false
}
