package transport

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/onecall-mcp/onecall/fault"
)

// callers counts what each caller does at the moment, and how often it comes.
type callers struct {
	mu   sync.Mutex
	byID map[string]*counted
}

// counted is what is known of one caller.
type counted struct {
	calls  int
	visits int           // requests over HTTP under way
	pace   *rate.Limiter // nil: it was not counted yet
	since  time.Time     // when it was counted last
}

// forgottenAfter is how long a caller must not have come to be forgotten if there are many.
const forgottenAfter = 10 * time.Minute

// of gives what is known of a caller. The caller of it holds the lock.
func (c *callers) of(id string) *counted {
	now := time.Now()
	known := c.byID[id]
	if known == nil {
		if c.byID == nil {
			c.byID = map[string]*counted{}
		}
		if n := len(c.byID); n > 0 && n%1024 == 0 {
			for other, one := range c.byID {
				if one.calls+one.visits == 0 && now.Sub(one.since) > forgottenAfter {
					delete(c.byID, other)
				}
			}
		}
		known = &counted{}
		c.byID[id] = known
	}
	known.since = now
	return known
}

// begin lets a caller begin a call of a tool beside those of its that run; most -1: as many as it likes.
func (c *callers) begin(id string, most int) (end func(), refused *fault.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	caller := c.of(id)
	if most >= 0 && caller.calls >= most {
		return nil, fault.New(fault.Busy, "%d of your calls are running, which is as many as may: wait until one has ended, and send this one again", most)
	}
	caller.calls++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		caller.calls--
	}, nil
}

// visit lets a caller send a request beside those of its that are under way; most -1: as many as it likes.
func (c *callers) visit(id string, most int) (leave func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	caller := c.of(id)
	if most >= 0 && caller.visits >= most {
		return nil, false
	}
	caller.visits++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		caller.visits--
	}, true
}

// take counts a request of a caller, and gives how long to wait if that is too many.
func (c *callers) take(id string, l *Limits) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	caller := c.of(id)
	switch limit := rate.Limit(l.PerSecond); {
	case caller.pace == nil:
		caller.pace = rate.NewLimiter(limit, l.Burst)
	case caller.pace.Limit() != limit || caller.pace.Burst() != l.Burst: // since a reload
		caller.pace.SetLimit(limit)
		caller.pace.SetBurst(l.Burst)
	}
	reserved := caller.pace.Reserve()
	wait := reserved.Delay()
	if wait > 0 {
		reserved.Cancel()
	}
	return wait
}
