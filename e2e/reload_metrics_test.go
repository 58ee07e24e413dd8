//go:build e2e && unix

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/polltest"
)

// TestReloadMetrics checks that the metric of the alert is set exactly while the configuration's file differs from what is served,
// and that the log reports both changes in the words that operators search for.
func TestReloadMetrics(t *testing.T) {
	t.Parallel()
	const good = "budget: {maxTotalTokens: 4000}\n"
	path := clitest.Write(t, t.TempDir(), "onecall.yaml", good)
	s := serveHTTP(t, path, "--metrics", "127.0.0.1:0")
	waitForMetric := func(line string) {
		t.Helper()
		polltest.Until(t, line, func() bool {
			_, page := s.statusOf(t, "/metrics", "")
			return strings.Contains(page, "\n"+line+"\n")
		}, s.stderr)
	}
	waitForMetric(`onecall_config_reloads_total{result="ok"} 1`)
	for n, breakConfig := range []func() error{
		func() error { return os.WriteFile(path, []byte("budget: {maxTotalTokens: lots}\n"), 0o600) },
		func() error { return os.Remove(path) },
		func() error { return os.WriteFile(path, []byte(" \n"), 0o600) },
	} {
		if err := breakConfig(); err != nil {
			t.Fatal(err)
		}
		waitForMetric("onecall_config_last_reload_successful 0")
		waitForLog(t, s.stderr, `level=ERROR msg="configuration refused" file=`, n+1)
		clitest.Write(t, filepath.Dir(path), "onecall.yaml", good)
		waitForMetric("onecall_config_last_reload_successful 1")
		waitForLog(t, s.stderr, `level=INFO msg="the file again holds the served configuration" file=`, n+1)
		waitForLog(t, s.stderr, "onecall.yaml again holds the served configuration", n+1)
	}
}
