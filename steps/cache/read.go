package cache

import (
	"context"
	"time"

	"github.com/onecall-mcp/onecall/steps"
)

// read is a read that writes may touch: one that runs, or the answer that is kept of it. Cache.mu guards what changes of
// it: source, flight and answer.
type read struct {
	key    key
	begun  time.Time
	source *source // nil: dropped
	flight *flight // nil: kept
	ttl    time.Duration
	answer []byte // of a read that is kept
}

// forget takes the read from its source.
func (r *read) forget() {
	delete(r.source.reads, r)
	r.source = nil
}

// fresh reports whether the answer may be given again. Age is counted on the clock that stands still while a computer
// sleeps and on the one that does not, and a clock that was set back makes it old.
func (r *read) fresh(now time.Time, ttl time.Duration) bool {
	ttl = min(ttl, r.ttl)
	wall := now.Round(0).Sub(r.begun.Round(0))
	return now.Sub(r.begun) < ttl && wall < ttl && wall >= 0
}

// reading makes the call of a function that is cached.
func (c *Cache) reading(f *function, next steps.Call) steps.Call {
	return func(ctx context.Context, args []byte) ([]byte, error) {
		callbacks := steps.CallbacksOf(ctx)
		k, ok := f.key(args, callbacks.Keep != nil)
		if !ok || f.isPrivate(ctx) {
			return next(ctx, args)
		}
		answer, joined := c.find(ctx, f, k)
		if answer == nil && joined == nil {
			var own *flight
			answer, joined, own = c.findOrLead(ctx, f, k)
			switch {
			case own != nil:
				return c.lead(ctx, own, next, args)
			case answer == nil && joined == nil: // a write is under way
				return next(ctx, args)
			}
		}
		if joined != nil {
			o, err := c.wait(ctx, joined)
			switch {
			case err != nil:
				return nil, err
			case o.personal:
				return next(ctx, args)
			case o.err != nil:
				return nil, o.err
			}
			answer = o.answer
		}
		if callbacks.Cached != nil {
			callbacks.Cached()
		}
		return answer, nil
	}
}

// find looks for an answer that is kept, else for a flight to wait for; both nil: neither is there. Who gets a flight
// counts as waiting for it.
func (c *Cache) find(ctx context.Context, f *function, k key) (answer []byte, joined *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.findLocked(ctx, f, k)
}

func (c *Cache) findLocked(ctx context.Context, f *function, k key) (answer []byte, joined *flight) {
	if r, ok := c.kept.Get(k); ok {
		if r.fresh(time.Now(), f.ttl) {
			return r.answer, nil
		}
		c.drop(r)
	}
	if r, ok := c.flights[k]; ok {
		r.flight.join(ctx)
		return nil, r.flight
	}
	return nil, nil
}

// findOrLead is find for one who has found nothing. own is a new flight, which the caller must lead; where all three are
// nil a write that may touch the read is under way, and the call must be made by itself.
func (c *Cache) findOrLead(ctx context.Context, f *function, k key) (answer []byte, joined, own *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer, joined = c.findLocked(ctx, f, k); answer != nil || joined != nil {
		return answer, joined, nil
	}
	if c.isWritten(f.source) {
		return nil, nil, nil
	}
	r := &read{key: k, source: c.source(f.source), begun: time.Now(), ttl: f.ttl}
	r.flight = newFlight(r)
	r.flight.join(ctx)
	r.source.reads[r] = struct{}{}
	c.flights[k] = r
	return nil, nil, r.flight
}
