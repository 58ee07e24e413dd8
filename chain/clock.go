package chain

import (
	"context"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// clock ends a chain's context when its time is up. It stands still while somebody is asked.
type clock struct {
	mu     sync.Mutex
	timer  *time.Timer
	left   time.Duration
	since  time.Time
	pauses int
}

// start gives a context that ends when the time is up, because of spent.
func (c *clock) start(ctx context.Context, most time.Duration, spent *fault.Error) (context.Context, context.CancelFunc) {
	own, cancel := context.WithCancelCause(ctx)
	c.left, c.since = most, time.Now()
	c.timer = time.AfterFunc(most, func() { cancel(spent) })
	return own, func() {
		c.timer.Stop()
		cancel(nil)
	}
}

func (c *clock) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pauses++; c.pauses == 1 && c.timer.Stop() {
		c.left -= time.Since(c.since)
	}
}

func (c *clock) goOn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pauses--; c.pauses == 0 {
		c.since = time.Now()
		c.timer.Reset(max(c.left, 0))
	}
}
