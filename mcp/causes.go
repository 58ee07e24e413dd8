package mcp

import (
	"context"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// occasion is something that is logged, but not each time.
type occasion struct {
	of        occasionKind
	what, who string // such as a reason, and a caller; "": there is but one
}

// occasionKind is a kind of occasions.
type occasionKind uint8

const (
	ofSource   occasionKind = iota // why calls of a source fail, of which callers are not told
	ofToken                        // why tokens are refused
	ofRefusal                      // why requests of known callers are refused
	ofStranger                     // why those are of which it was not looked who has sent them
	occasionKinds
)

// causes are when occasions were logged last. The zero value has none.
type causes struct {
	mu   sync.Mutex
	of   [occasionKinds]map[occasion]*toldOccasion
	many [occasionKinds]time.Time // when those of a kind were too many, and the old were forgotten
}

// toldOccasion is what is known of an occasion.
type toldOccasion struct {
	at   time.Time // when it was logged last
	left int       // how often it was not since
}

const (
	// occasionEvery is how often an occasion is logged at most.
	occasionEvery = 10 * time.Second
	// maxOccasions is for how many occasions of a kind it is known when they were logged, whatever names others think of. Those
	// beyond are one for all of whom the same is told.
	maxOccasions = 256
)

// due tells whether an occasion is to be logged.
func (c *causes) due(one occasion) bool {
	_, due := c.dueAfter(one)
	return due
}

// dueAfter tells whether an occasion is to be logged, and how often it was not since it was.
func (c *causes) dueAfter(one occasion) (left int, due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	known := c.of[one.of]
	if known == nil {
		known = map[occasion]*toldOccasion{}
		c.of[one.of] = known
	}
	if known[one] == nil && len(known) >= maxOccasions {
		c.forget(one.of, now)
		if len(known) >= maxOccasions {
			one.who = ""
		}
	}
	told := known[one]
	switch {
	case told == nil:
		known[one] = &toldOccasion{at: now}
		return 0, true
	case now.Sub(told.at) < occasionEvery:
		told.left++
		return 0, false
	}
	left, told.at, told.left = told.left, now, 0
	return left, true
}

// forget makes room for other occasions of a kind, each second at most. c.mu is held.
func (c *causes) forget(kind occasionKind, now time.Time) {
	if now.Sub(c.many[kind]) < time.Second {
		return
	}
	c.many[kind] = now
	for one, told := range c.of[kind] {
		if one.who != "" && now.Sub(told.at) >= occasionEvery {
			delete(c.of[kind], one)
		}
	}
}

// discreetly gives the context of a request. Why a source is not there is for operators, who are the callers of the highest tier,
// and for the one user of a server whose callers have no tokens. Others read what they can do about it.
func (s *Server) discreetly(ctx context.Context, extra *sdk.RequestExtra) context.Context {
	if v := visitorOf(extra); v == nil || v.Tier >= steps.TierAdmin {
		return ctx
	}
	return steps.WithoutCauses(ctx, s.logCause)
}

func (s *Server) logCause(ctx context.Context, source string, cause *fault.Error) {
	if o := s.o(); s.causes.due(occasion{of: ofSource, who: source}) {
		o.Log.WarnContext(ctx, "a call of a source failed", "source", source, "code", string(cause.Code), "error", o.Scrubber.Text(cause.Message))
	}
}

// viewIn is what the caller whose request ctx is of may use, and is told of.
func (n *scene) viewIn(ctx context.Context) *steps.View {
	if steps.Discreet(ctx) {
		return n.discreet
	}
	return n.view
}
