package cache

import (
	"context"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// uncertainTime is how long a source may still be executing a call with an unknown outcome.
const uncertainTime = 30 * time.Second

// source holds the reads and writes of one source. Cache.mu guards it.
type source struct {
	reads          map[*cachedRead]struct{} // running, or stored
	activeWrites   int                      // running writes
	uncertainUntil time.Time                // the time until which a write that broke off may still be executed
}

func (c *Cache) source(name string) *source {
	s := c.sources[name]
	if s == nil {
		s = &source{reads: map[*cachedRead]struct{}{}}
		c.sources[name] = s
	}
	return s
}

func (s *source) isWritten(now time.Time) bool {
	return s.activeWrites > 0 || now.Before(s.uncertainUntil)
}

// writeCall wraps the call of a function that does not read.
func (c *Cache) writeCall(f *function, next steps.Call) steps.Call {
	return func(ctx context.Context, args []byte) (result []byte, err error) {
		c.beginWrite(f.source)
		returned := false
		defer func() { c.endWrite(f.source, !returned || fault.OutcomeOf(err) == fault.SentUnknown) }()
		result, err = next(ctx, args)
		returned = true
		return result, err
	}
}

// beginWrite drops the reads of the source that a write is about to change. While the write runs, none of the source's reads is stored,
// joined or answered from the cache, so nothing is left to drop when it ends.
func (c *Cache) beginWrite(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.source(name).activeWrites++
	c.dropReads(name)
}

// endWrite allows reads to be stored again: immediately, or after uncertainTime if the write broke off.
func (c *Cache) endWrite(name string, broken bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.source(name)
	s.activeWrites--
	if broken {
		s.uncertainUntil = time.Now().Add(uncertainTime)
	}
}

// dropReads drops the reads of a source; "": of all sources, because a write without a source may change anything. Cache.mu is held.
func (c *Cache) dropReads(name string) {
	for source, s := range c.sources {
		if name != "" && source != name {
			continue
		}
		for r := range s.reads {
			c.drop(r)
		}
	}
}

// isWritten reports whether a write that may affect a source's answers is running or uncertain. Cache.mu is held.
func (c *Cache) isWritten(name string) bool {
	now := time.Now()
	for _, one := range []string{name, ""} {
		if s := c.sources[one]; s != nil && s.isWritten(now) {
			return true
		}
	}
	return false
}
