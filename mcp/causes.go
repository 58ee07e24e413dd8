package mcp

import (
	"context"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// causes are why calls of sources failed, and requests were refused, of which callers are not told: they are logged, but not
// for each of them.
type causes struct {
	mu sync.Mutex
	at map[string]time.Time // by source, or by what is told: when it was logged last
}

// causeEvery is how often the cause of one source's failures, or one kind of refusal, is logged at most.
const causeEvery = 10 * time.Second

// due tells whether a cause is to be logged. A name with a colon and a blank is none of a source.
func (c *causes) due(source string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if at, told := c.at[source]; told && now.Sub(at) < causeEvery {
		return false
	}
	if c.at == nil {
		c.at = map[string]time.Time{}
	}
	c.at[source] = now
	return true
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
	if o := s.o(); s.causes.due(source) {
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
