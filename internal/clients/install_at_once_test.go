package clients

import (
	"strings"
	"testing"
)

// TestInstallsAtOnce: of several installations that write the configuration at the same time, one succeeds, and the others report what
// happened.
func TestInstallsAtOnce(t *testing.T) {
	t.Parallel()
	for range 20 {
		l := home(t, "cursor")
		seed(t, l.in(".cursor/mcp.json"), `{"mcpServers": {"a": {"command": "a"}}}`)
		plans, failed := []*Plan{l.plan(t), l.plan(t), l.plan(t)}, make(chan error, 3)
		for _, p := range plans {
			go func() { failed <- p.Apply(t.Context()) }()
		}
		done := 0
		for range plans {
			if err := <-failed; err == nil {
				done++
			} else if !strings.Contains(err.Error(), "has changed in the meantime: run this again") {
				t.Error(err)
			}
		}
		if done == 0 {
			t.Error("none was installed")
		}
	}
}
