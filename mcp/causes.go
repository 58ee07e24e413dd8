package mcp

import (
	"context"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// causes are when it was logged last, by source, why its calls fail. The zero value has none.
type causes struct {
	mu sync.Mutex
	at map[string]time.Time
}

// causeEvery is how often the cause is logged of a source whose calls fail.
const causeEvery = 10 * time.Second

// due reports whether the cause of a source is to be logged.
func (c *causes) due(source string) bool {
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

// logCause logs why a source is not there, which callers are not told.
func (s *Server) logCause(ctx context.Context, source string, cause *fault.Error) {
	if o := s.o(); s.causes.due(source) {
		o.Log.WarnContext(ctx, "a call of a source failed", "source", source, "code", string(cause.Code), "error", o.Scrubber.Text(cause.Message))
	}
}

// viewIn is what the caller whose request ctx is of may use, and is told of.
func (n *viewSnapshot) viewIn(ctx context.Context) *steps.View {
	if steps.Discreet(ctx) {
		return n.discreet
	}
	return n.view
}
