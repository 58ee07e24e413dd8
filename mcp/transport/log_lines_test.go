package transport_test

import (
	"log/slog"
	"strings"
	"sync"

	"github.com/onecall-mcp/onecall/internal/syncbuf"
)

// logLines collects the lines of a log.
type logLines struct{ syncbuf.Buffer }

// lines returns the lines with a message.
func (l *logLines) lines(message string) []string {
	var all []string
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, "msg="+message+" ") || strings.Contains(line, `msg="`+message+`"`) {
			all = append(all, strings.TrimSpace(line))
		}
	}
	return all
}

func (l *logLines) log(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: level}))
}

// refusalCounts counts refusals by reason.
type refusalCounts struct {
	mu sync.Mutex
	by map[string]int
}

func (c *refusalCounts) refused(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[string]int{}
	}
	c.by[reason]++
}

func (c *refusalCounts) count(reason string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by[reason]
}
