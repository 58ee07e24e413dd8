package mcp

import (
	"context"
	"math"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/time/rate"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
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

// forgottenAfter is how long a caller must not have come to be forgotten where there are many.
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

// take counts a request of a caller in this process, and tells how long to wait where that is too many.
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

// take counts a request, and gives how long to wait if that is too many.
func (s *Server) take(ctx context.Context, method string, caller *steps.Caller) (wait time.Duration) {
	o := s.o()
	if o.Limits.PerSecond == 0 || method == "ping" || strings.HasPrefix(method, "notifications/") {
		return 0
	}
	if wait = s.callers.take(caller.ID, &o.Limits); wait > 0 {
		s.refused(ctx, RefusedRate, caller)
	}
	return wait
}

// tooOften says that a request was one too many.
func (s *Server) tooOften(wait time.Duration) *fault.Error {
	return fault.New(fault.Busy, "you may make %v requests a second: send this one again in %d s", s.o().Limits.PerSecond, int(math.Ceil(wait.Seconds())))
}

// tooMany answers a request that was one too many: a call of a tool by a result that a model reads, any other by an error.
func (f *face) tooMany(ctx context.Context, method string, extra *sdk.RequestExtra, caller *steps.Caller, refused *fault.Error) (sdk.Result, error) {
	if method == "tools/call" {
		engine := f.server.o().Engine
		ctx, id := identified(ctx, engine, extra)
		answer := engine.Refuse(ctx, []*fault.Error{refused}, &chain.Caller{ID: caller.ID, Run: id})
		return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: string(answer.JSON)}}}, nil
	}
	return nil, f.told(refused)
}

// callerOf is who has sent a request: whom its token names, else who the session is of (nil: there is none), else who comes
// in by the door.
func (s *Server) callerOf(extra *sdk.RequestExtra, n *session) *steps.Caller {
	if v := visitorOf(extra); v != nil {
		return v.Caller
	}
	if n != nil {
		return &n.caller
	}
	if door := s.door.Load(); door != nil {
		return &door.Access
	}
	return &steps.Caller{}
}
