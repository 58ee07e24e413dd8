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

// TestReloadChains checks that saved chains are read again when the folder changes, and that clients are notified. A broken chain
// hides no other.
func TestReloadChains(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "chains"), 0o755); err != nil {
		t.Fatal(err)
	}
	chainFile := func(name, text string) { clitest.Write(t, filepath.Join(folder, "chains"), name, text) }
	p := startStdioServer(t, clitest.Write(t, folder, "onecall.yaml", "{}\n"))
	p.checkServes(t)
	reported := 0
	hear := func(messages []gjson.Result) {
		for _, m := range messages {
			if m.Get("method").Str == "notifications/tools/list_changed" {
				reported++
			}
		}
	}
	answers := func(fn string) string {
		p.write(t, `{"jsonrpc":"2.0","id":"run","method":"tools/call","params":{"name":"chain","arguments":{"lite":true,"steps":[{"fn":"`+fn+`"}]}}}`)
		m, others := p.readAnswer(t, `"run"`)
		hear(others)
		return m.Get("result.content.0.text").Str
	}
	if got := answers("chain.one"); !strings.Contains(got, "unknown_function") {
		t.Errorf("before there is a chain: %s", got)
	}
	chainFile("one.chain.json", `{"tool":true,"steps":[{"expr":"1"}]}`)
	waitForLog(t, p.stderr, wasLoaded, 1)
	if got := answers("chain.one"); got != "1" {
		t.Errorf("a new chain: %s", got)
	}
	p.write(t, `{"jsonrpc":"2.0","id":"list","method":"tools/list"}`)
	m, others := p.readAnswer(t, `"list"`)
	if hear(others); !strings.Contains(m.Raw, `"name":"one"`) {
		t.Errorf("its tool: %s", m.Raw)
	}
	chainFile("one.chain.json", `{"steps":[{"expr":"2"}]}`)
	waitForLog(t, p.stderr, wasLoaded, 2)
	if got := answers("chain.one"); got != "2" {
		t.Errorf("a changed chain: %s", got)
	}
	chainFile("two.chain.yaml", "steps:\n  - {expr: 3}\n")
	waitForLog(t, p.stderr, wasLoaded, 3)
	waitForLog(t, p.stderr, "two.chain.yaml, line 2, column 12: ", 1)
	if got := answers("chain.one"); got != "2" {
		t.Errorf("beside a broken one: %s", got)
	}
	if err := os.Remove(filepath.Join(folder, "chains", "one.chain.json")); err != nil {
		t.Fatal(err)
	}
	waitForLog(t, p.stderr, wasLoaded, 4)
	if got := answers("chain.one"); !strings.Contains(got, "unknown_function") {
		t.Errorf("after it is gone: %s", got)
	}
	if reported < 2 {
		t.Errorf("the client was told %d times", reported)
	}
	p.finish(t)
}
