package chain

import (
	"context"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// clock ends a context when its time is up: the chain's, or that of a step with an inline chain. It stands still while somebody is asked.
type clock struct {
	outer *clock // of the chain that this step stands in; nil: this is the outermost chain's
	mu    sync.Mutex
	timer *time.Timer
	left  time.Duration
	since time.Time
	holds int // how many questions it stands still for
}

type clockKey struct{}

func clockOf(ctx context.Context) *clock {
	c, _ := ctx.Value(clockKey{}).(*clock)
	return c
}

// within gives a context that ends after most, because of spent. If the chain may ask somebody, the time until the answer does not count.
func (s *exchange) within(ctx context.Context, most time.Duration, spent *fault.Error) (context.Context, context.CancelFunc) {
	if s.ask == nil || s.record == nil {
		return context.WithTimeout(ctx, most)
	}
	own, cancel := context.WithCancelCause(ctx)
	c := &clock{outer: clockOf(ctx), left: most, since: time.Now()}
	c.timer = time.AfterFunc(most, func() { cancel(spent) })
	return &timed{own, c}, func() {
		c.timer.Stop()
		cancel(nil)
	}
}

// timed is a context that a clock ends.
type timed struct {
	context.Context
	clock *clock
}

// Deadline implements context.Context: it is when the time is up if nobody is asked from now on.
func (t *timed) Deadline() (time.Time, bool) {
	t.clock.mu.Lock()
	since := t.clock.since
	if t.clock.holds > 0 {
		since = time.Now()
	}
	ends := since.Add(t.clock.left)
	t.clock.mu.Unlock()
	if outer, ok := t.Context.Deadline(); ok && outer.Before(ends) {
		return outer, true
	}
	return ends, true
}

// Value implements context.Context.
func (t *timed) Value(key any) any {
	if key == (clockKey{}) {
		return t.clock
	}
	return t.Context.Value(key)
}

// pause has this clock and those around it stand still, until the function that it gives is called.
func (c *clock) pause() (goOn func()) {
	for one := c; one != nil; one = one.outer {
		one.hold(1)
	}
	return func() {
		for one := c; one != nil; one = one.outer {
			one.hold(-1)
		}
	}
}

func (c *clock) hold(by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.holds
	c.holds += by
	switch {
	case was == 0 && c.timer.Stop():
		c.left -= time.Since(c.since)
	case c.holds == 0:
		c.since = time.Now()
		c.timer.Reset(max(c.left, 0))
	}
}
