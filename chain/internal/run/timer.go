package run

import (
	"context"
	"sync"
	"time"
)

// pausableTimer ends a context when the time of a chain, or of a step with an inline chain or an expression, is up. It is paused while an
// approval is being decided.
type pausableTimer struct {
	outer     *pausableTimer // the timer of the chain around this one; nil: this is the outermost
	mu        sync.Mutex
	timer     *time.Timer
	remaining time.Duration // the time that was left at since
	since     time.Time     // when the timer was last started
	holds     int           // pending approvals; 0: the timer runs
}

type timerKey struct{}

// timerOf returns the innermost timer that ends ctx; nil: there is none. A nil timer can be paused, which does nothing.
func timerOf(ctx context.Context) *pausableTimer {
	c, _ := ctx.Value(timerKey{}).(*pausableTimer)
	return c
}

// timerContext is a context that ends with a pausableTimer.
type timerContext struct {
	context.Context
	timer *pausableTimer
}

// Deadline implements context.Context. It is the time at which the context ends if no approval is pending from now on.
func (t *timerContext) Deadline() (time.Time, bool) {
	t.timer.mu.Lock()
	since := t.timer.since
	if t.timer.holds > 0 {
		since = time.Now()
	}
	ends := since.Add(t.timer.remaining)
	t.timer.mu.Unlock()
	if outer, ok := t.Context.Deadline(); ok && outer.Before(ends) {
		return outer, true
	}
	return ends, true
}

// Value implements context.Context.
func (t *timerContext) Value(key any) any {
	if key == (timerKey{}) {
		return t.timer
	}
	return t.Context.Value(key)
}

// pause pauses this timer and those around it until the returned function is called.
func (c *pausableTimer) pause() (resume func()) {
	for timer := c; timer != nil; timer = timer.outer {
		timer.adjustHolds(1)
	}
	return func() {
		for timer := c; timer != nil; timer = timer.outer {
			timer.adjustHolds(-1)
		}
	}
}

// adjustHolds adds change to the pending approvals. The first one stops the timer; after the last one it runs for the remaining time.
func (c *pausableTimer) adjustHolds(change int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.holds
	c.holds += change
	switch {
	case before == 0 && c.timer.Stop():
		c.remaining -= time.Since(c.since)
	case c.holds == 0:
		c.since = time.Now()
		c.timer.Reset(max(c.remaining, 0))
	}
}
