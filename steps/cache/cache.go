package cache

import (
	"cmp"
	"context"
	"math"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/onecall-mcp/onecall/steps"
)

const (
	defaultMaxBytes   = 64 << 20
	defaultMaxEntries = 10_000
)

// Options configure a cache; nil is the zero value.
type Options struct {
	// TTL returns how long an answer of the function may be reused, from the start of its call; 0: it is not cached. It is called once per
	// function in each Wrap. nil: the spec's CacheTTL. It is ignored for a function that does not read or has no source.
	TTL func(*steps.Spec) time.Duration

	// Source returns the source of the function: a write only affects reads of its own source. nil: the spec's Source,
	// which is wrong for functions that were renamed to another source's prefix. A write without a source ("") empties the
	// cache.
	Source func(*steps.Spec) string

	// MaxBytes bounds all answers together, each counted with 512 bytes of overhead; the least recently used are dropped
	// first. An answer that takes more than a quarter of it is not stored. 0: 64 MiB; -1: no bound.
	MaxBytes int64

	MaxEntries int // bounds the number of answers; 0: 10,000; -1: no bound
}

func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	if c.TTL == nil {
		c.TTL = func(s *steps.Spec) time.Duration { return s.CacheTTL }
	}
	if c.Source == nil {
		c.Source = (*steps.Spec).Source
	}
	if c.MaxBytes = cmp.Or(c.MaxBytes, defaultMaxBytes); c.MaxBytes < 0 {
		c.MaxBytes = math.MaxInt64
	}
	if c.MaxEntries = cmp.Or(c.MaxEntries, defaultMaxEntries); c.MaxEntries < 0 {
		c.MaxEntries = math.MaxInt
	}
	return c
}

// Cache is a call cache. Many goroutines may use it. It need not be closed: it has no goroutines but those of running calls, and a timer
// while it stores answers.
type Cache struct {
	options Options

	mu      sync.Mutex
	sources map[string]*source
	flights map[key]*cachedRead // running reads that can be joined
	stored  *simplelru.LRU[key, *cachedRead]
	bytes   int64       // the size of stored
	sweeper *time.Timer // nil while nothing is stored
}

// New returns an empty cache.
func New(o *Options) *Cache {
	c := &Cache{options: o.withDefaults(), sources: map[string]*source{}, flights: map[key]*cachedRead{}}
	// NewLRU fails only for a size below 1, which withDefaults rules out.
	c.stored, _ = simplelru.NewLRU(c.options.MaxEntries, c.onEvict)
	return c
}

// Wrap returns a clone of the registry whose calls go through the cache. It may be called for every new registry of the
// same sources: they share the answers. Results are shared and must not be changed.
func (c *Cache) Wrap(r *steps.Registry) *steps.Registry {
	return r.Wrap(func(spec *steps.Spec, next steps.Call) steps.Call {
		f := c.newFunction(spec)
		switch {
		case spec.Effect != steps.Read:
			return c.writeCall(f, next)
		case f.ttl > 0 && f.source != "":
			return c.readCall(f, next)
		}
		return next
	})
}

// Flush drops the answers of a source; its running reads are no longer stored or joined. It is for a source that was restarted or
// reconfigured. "": all sources.
func (c *Cache) Flush(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropReads(steps.FoldName(name))
}

// function holds the cache's settings for a function of a registry.
type function struct {
	source    string                     // folded; "": none
	isPrivate func(context.Context) bool // reports whether a call is private for the source (steps.WithPrivateCalls)
	ttl       time.Duration
	identity  identity
}

func (c *Cache) newFunction(spec *steps.Spec) *function {
	source := c.options.Source(spec)
	f := &function{source: steps.FoldName(source), isPrivate: steps.IsPrivate(source), identity: identify(spec)}
	if spec.Effect == steps.Read {
		f.ttl = c.options.TTL(spec)
	}
	return f
}
