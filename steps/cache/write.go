package cache

import (
	"context"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// settling is how long a source may still work on a call whose outcome is unknown.
const settling = 30 * time.Second

// source is what is known of the reads and writes of one source. It is guarded by Cache.mu.
type source struct {
	reads   map[*read]struct{} // that run, or whose answers are kept
	writing int                // writes that run
	settled time.Time          // until then, a write that broke off may still be carried out
}

func (c *Cache) source(name string) *source {
	s := c.sources[name]
	if s == nil {
		s = &source{reads: map[*read]struct{}{}}
		c.sources[name] = s
	}
	return s
}

func (s *source) isWritten(now time.Time) bool { return s.writing > 0 || now.Before(s.settled) }

// writing makes the call of a function that does not read.
func (c *Cache) writing(f *function, next steps.Call) steps.Call {
	return func(ctx context.Context, args []byte) (result []byte, err error) {
		c.begin(f.source)
		returned := false
		defer func() { c.end(f.source, !returned || fault.OutcomeOf(err) == fault.SentUnknown) }()
		result, err = next(ctx, args)
		returned = true
		return result, err
	}
}

// begin empties the source that a write is about to change. No read of it is kept, joined or answered from the cache before the
// write has ended, so there is nothing to drop then.
func (c *Cache) begin(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.source(name).writing++
	c.empty(name)
}

// end lets reads be kept again: at once, or after a write that broke off when it has settled.
func (c *Cache) end(name string, broken bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.source(name)
	s.writing--
	if broken {
		s.settled = time.Now().Add(settling)
	}
}

// empty drops the reads of a source; "": of all, as nobody knows what a write without a source changes. Cache.mu is held.
func (c *Cache) empty(name string) {
	for own, s := range c.sources {
		if name != "" && own != name {
			continue
		}
		for r := range s.reads {
			c.drop(r)
		}
	}
}

// isWritten reports whether a write that may change what a source answers runs or settles. Cache.mu is held.
func (c *Cache) isWritten(name string) bool {
	now := time.Now()
	for _, one := range []string{name, ""} {
		if s := c.sources[one]; s != nil && s.isWritten(now) {
			return true
		}
	}
	return false
}
