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
	// TTL is for how long an answer of the function may be given again, from the moment on when its call began; 0: it is
	// not cached. It is asked once per function and Wrap. nil: the spec's CacheTTL. What it says of a function that does not
	// read, or has no source, is not heeded: see Check.
	TTL func(*steps.Spec) time.Duration

	// Source names the source that offers the function: a write touches reads of its own source only. nil: the spec's
	// Source, which is not the source where functions were renamed to begin with another's name. A write without a source
	// ("") empties the cache.
	Source func(*steps.Spec) string

	// MaxBytes bounds all answers together, each counted with 512 bytes for what stands around it; those that were not used
	// for the longest time go first. An answer that takes more than a quarter of it is not kept. 0: 64 MiB; -1: no bound.
	MaxBytes int64

	MaxEntries int // bounds the number of answers likewise; 0: 10,000; -1: no bound
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

// Cache is a call cache. It may be used by many goroutines. It needs no closing: it holds no goroutine but those of calls
// that run, and a timer while it holds answers.
type Cache struct {
	options Options

	mu      sync.Mutex
	sources map[string]*source
	flights map[key]*read // reads that run and can be joined
	kept    *simplelru.LRU[key, *read]
	bytes   int64       // of kept
	sweeper *time.Timer // nil while nothing is kept
}

// New makes an empty cache.
func New(o *Options) *Cache {
	c := &Cache{options: o.withDefaults(), sources: map[string]*source{}, flights: map[key]*read{}}
	// The only error is a size below 1, which withDefaults does not leave.
	c.kept, _ = simplelru.NewLRU(c.options.MaxEntries, c.evicted)
	return c
}

// Wrap returns a clone of the registry whose calls go through the cache. It may be called for every new registry of the
// same sources: they share what is kept. Results that come out of it are shared and must not be changed.
func (c *Cache) Wrap(r *steps.Registry) *steps.Registry {
	return r.Wrap(func(spec *steps.Spec, next steps.Call) steps.Call {
		f := c.newFunction(spec)
		switch {
		case spec.Effect != steps.Read:
			return c.writing(f, next)
		case f.ttl > 0 && f.source != "":
			return c.reading(f, next)
		}
		return next
	})
}

// Flush drops the answers of a source, and lets no read of it that runs now be kept or joined: for a source that was
// restarted or configured anew. "": of all sources.
func (c *Cache) Flush(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.empty(steps.FoldName(name))
}

// function is what the cache knows of a function in a registry.
type function struct {
	source    string // folded; "": none
	isPrivate func(context.Context) bool
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
