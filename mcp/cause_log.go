package mcp

import (
	"context"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// causeLog limits how often the failure of a source is logged. The zero value is ready to use.
type causeLog struct {
	mu sync.Mutex
	at map[string]time.Time // when the last line was logged, by source
}

// causeEvery is the minimum interval between two lines for one source.
const causeEvery = 10 * time.Second

// due reports whether to log the cause of a source now. If so, it records that the cause is logged.
func (c *causeLog) due(source string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if last, known := c.at[source]; known && now.Sub(last) < causeEvery {
		return false
	}
	if c.at == nil {
		c.at = map[string]time.Time{}
	}
	c.at[source] = now
	return true
}

// logCause logs why a source is down; callers do not see it.
func (s *Server) logCause(ctx context.Context, source string, cause *fault.Error) {
	if o := s.opts(); s.causes.due(source) {
		o.Log.WarnContext(ctx, "a call of a source failed", "source", source, "code", string(cause.Code), "error", o.Scrubber.Text(cause.Message))
	}
}

// viewIn returns the functions and sources that the caller of a request may know, without causes if ctx hides them.
func (n *viewSnapshot) viewIn(ctx context.Context) *steps.View {
	if steps.HidesCauses(ctx) {
		return n.withoutCauses
	}
	return n.view
}
