//go:build e2e && unix

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// TestReloadChains checks that saved chains are read again when the folder changes, and that clients are notified. A broken chain must not
// hide another.
func TestReloadChains(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "chains"), 0o755); err != nil {
		t.Fatal(err)
	}
	chainFile := func(name, text string) { clitest.Write(t, filepath.Join(folder, "chains"), name, text) }
	p := startStdioServer(t, clitest.Write(t, folder, "onecall.yaml", "{}\n"))
	p.checkServes(t)
	notifications := 0
	countNotifications := func(messages []gjson.Result) {
		for _, m := range messages {
			if m.Get("method").Str == "notifications/tools/list_changed" {
				notifications++
			}
		}
	}
	call := func(fn string) string {
		p.write(t, `{"jsonrpc":"2.0","id":"run","method":"tools/call","params":{"name":"chain","arguments":{"lite":true,"steps":[{"fn":"`+fn+`"}]}}}`)
		m, others := p.readAnswer(t, `"run"`)
		countNotifications(others)
		return m.Get("result.content.0.text").Str
	}
	if got := call("chain.one"); !strings.Contains(got, "unknown_function") {
		t.Errorf("chain.one before it exists: %s, want unknown_function", got)
	}
	chainFile("one.chain.json", `{"tool":true,"steps":[{"expr":"1"}]}`)
	waitForLog(t, p.stderr, logReloaded, 1)
	if got := call("chain.one"); got != "1" {
		t.Errorf("the new chain returned %s, want 1", got)
	}
	p.write(t, `{"jsonrpc":"2.0","id":"list","method":"tools/list"}`)
	m, others := p.readAnswer(t, `"list"`)
	if countNotifications(others); !strings.Contains(m.Raw, `"name":"one"`) {
		t.Errorf("the tool list lacks the chain: %s", m.Raw)
	}
	chainFile("one.chain.json", `{"steps":[{"expr":"2"}]}`)
	waitForLog(t, p.stderr, logReloaded, 2)
	if got := call("chain.one"); got != "2" {
		t.Errorf("the changed chain returned %s, want 2", got)
	}
	chainFile("two.chain.yaml", "steps:\n  - {expr: 3}\n")
	waitForLog(t, p.stderr, logReloaded, 3)
	waitForLog(t, p.stderr, "two.chain.yaml, line 2, column 12: ", 1)
	if got := call("chain.one"); got != "2" {
		t.Errorf("with a broken chain in the folder, the other returned %s, want 2", got)
	}
	if err := os.Remove(filepath.Join(folder, "chains", "one.chain.json")); err != nil {
		t.Fatal(err)
	}
	waitForLog(t, p.stderr, logReloaded, 4)
	if got := call("chain.one"); !strings.Contains(got, "unknown_function") {
		t.Errorf("chain.one after its removal: %s, want unknown_function", got)
	}
	if notifications < 2 {
		t.Errorf("%d list_changed notifications, want at least 2", notifications)
	}
	p.finish(t)
}
