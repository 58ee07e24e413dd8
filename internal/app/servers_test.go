package app

import (
	"os"
	"strings"
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

// TestTimeoutsOfClients: an entry's times are used as the clients mean them that write them.
func TestTimeoutsOfClients(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]time.Duration{
		`{}`:                {0, 0},
		`{timeout: 120000}`: {120 * time.Second, 0},
		`{timeout: 1000}`:   {time.Second, 0},
		`{timeout: 90}`:     {90 * time.Second, 0},
		`{tool_timeout_sec: 60, startup_timeout_sec: 20}`:                {time.Minute, 20 * time.Second},
		`{toolTimeoutSec: 60, startupTimeoutSec: 20, startTimeoutMs: 5}`: {time.Minute, 5 * time.Millisecond},
		`{startup_timeout_ms: 500}`:                                      {0, 500 * time.Millisecond},
		`{initTimeout: 500}`:                                             {0, 500 * time.Millisecond},
	} {
		entry := strings.Replace("{command: node, "+strings.TrimPrefix(text, "{"), ", }", "}", 1)
		c, faults := config.Parse("onecall.yaml", []byte("mcpServers: {s: "+entry+"}"), os.LookupEnv)
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		if s := &c.MCPServers[0].Config; s.CallTimeout() != want[0] || startTimeout(s) != want[1] {
			t.Errorf("%s: %v for a call, %v to start, want %v", text, s.CallTimeout(), startTimeout(s), want)
		}
	}
}
