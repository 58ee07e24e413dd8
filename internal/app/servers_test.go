package app

import (
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/internal/config"
)

// TestStartTimeout: commands that may install the server have more time to start, unless the configuration sets it.
func TestStartTimeout(t *testing.T) {
	t.Parallel()
	limit := 500
	for _, test := range []struct {
		command string
		limit   *int
		want    time.Duration
	}{
		{"npx", nil, 2 * time.Minute}, {"/usr/local/bin/npx", nil, 2 * time.Minute}, {"npx.cmd", nil, 2 * time.Minute},
		{"uvx", nil, 2 * time.Minute},
		{"npx", &limit, 500 * time.Millisecond}, {"node", nil, 0}, {"", nil, 0},
	} {
		if got := startTimeout(&config.MCPServer{Command: &test.command, StartTimeoutMs: test.limit}); got != test.want {
			t.Errorf("%s: %v, want %v", test.command, got, test.want)
		}
	}
}
