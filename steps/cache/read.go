package cache

import (
	"bytes"
	"context"
	"time"

	"github.com/onecall-mcp/onecall/steps"
)

// cachedRead is a read that a write may invalidate: a running read or a stored answer. Cache.mu guards source, flight and answer.
type cachedRead struct {
	key    key
	begun  time.Time
	source *source // nil: the read was dropped
	flight *flight // nil: the read has ended
	ttl    time.Duration
	answer []byte // the answer of a stored read
}

// forget removes the read from its source.
func (r *cachedRead) forget() {
	delete(r.source.reads, r)
	r.source = nil
}

// fresh reports whether the answer may be reused: its age is below ttl and below the time to live with which it was read. The age is
// measured on the monotonic clock, which may stop while the computer sleeps, and on the wall clock. If the wall clock was set back, so that
// the answer seems to come from the future, it is not fresh.
func (r *cachedRead) fresh(now time.Time, ttl time.Duration) bool {
	ttl = min(ttl, r.ttl)
	wall := now.Round(0).Sub(r.begun.Round(0))
	return now.Sub(r.begun) < ttl && wall < ttl && wall >= 0
}

// readCall wraps the call of a cached function.
func (c *Cache) readCall(f *function, next steps.Call) steps.Call {
	return func(ctx context.Context, args []byte) ([]byte, error) {
		callbacks := steps.CallbacksOf(ctx)
		if !bytes.Equal(callbacks.Blocks.Digests(args), args) { // what stands for blocks differs in each run: no other call is equal
			return next(ctx, args)
		}
		k, ok := f.key(args, callbacks.Keep != nil)
		if !ok || f.isPrivate(ctx) {
			return next(ctx, args)
		}
		answer, joined := c.find(ctx, f, k)
		if answer == nil && joined == nil {
			var started *flight
			answer, joined, started = c.findOrStart(ctx, f, k)
			switch {
			case started != nil:
				return c.start(ctx, started, next, args)
			case answer == nil && joined == nil: // a write is running
				return next(ctx, args)
			}
		}
		if joined != nil {
			o, err := c.wait(ctx, joined)
			switch {
			case err != nil:
				return nil, err
			case o.private:
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

// find returns a stored answer, or else a flight to wait for; both are nil if there is neither. The caller becomes a waiter of the flight.
func (c *Cache) find(ctx context.Context, f *function, k key) (answer []byte, joined *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.findLocked(ctx, f, k)
}

func (c *Cache) findLocked(ctx context.Context, f *function, k key) (answer []byte, joined *flight) {
	if r, ok := c.stored.Get(k); ok {
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

// findOrStart is find for a caller that has found nothing. started is a new flight, which the caller must start. If all three are nil, a
// write that may affect the read is running, and the call must be made directly.
func (c *Cache) findOrStart(ctx context.Context, f *function, k key) (answer []byte, joined, started *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer, joined = c.findLocked(ctx, f, k); answer != nil || joined != nil {
		return answer, joined, nil
	}
	if c.isWritten(f.source) {
		return nil, nil, nil
	}
	r := &cachedRead{key: k, source: c.source(f.source), begun: time.Now(), ttl: f.ttl}
	r.flight = newFlight(r)
	r.flight.join(ctx)
	r.source.reads[r] = struct{}{}
	c.flights[k] = r
	return nil, nil, r.flight
}
