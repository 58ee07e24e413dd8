package clients

import (
	"strings"
	"testing"
)

// TestConcurrentInstalls: of several installations that write the configuration at the same time, one succeeds, and the others report what
// happened.
func TestConcurrentInstalls(t *testing.T) {
	t.Parallel()
	for range 20 {
		l := newLayout(t, "cursor")
		seed(t, l.homePath(".cursor/mcp.json"), `{"mcpServers": {"a": {"command": "a"}}}`)
		plans, failed := []*Plan{l.plan(t), l.plan(t), l.plan(t)}, make(chan error, 3)
		for _, p := range plans {
			go func() { failed <- p.Apply(t.Context()) }()
		}
		succeeded := 0
		for range plans {
			if err := <-failed; err == nil {
				succeeded++
			} else if !strings.Contains(err.Error(), "has changed in the meantime: run this again") {
				t.Errorf(`got error %v, want "has changed in the meantime"`, err)
			}
		}
		if succeeded == 0 {
			t.Error("all concurrent installations failed")
		}
	}
}
