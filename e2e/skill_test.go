//go:build e2e && unix

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// In the skill, a request to chain is in a block or inline. The line after a block shows the answer.
var (
	skillBlock  = regexp.MustCompile("(?s)```json\n(.*?)```\n\n(?:answers `([^\n]*)`\n)?")
	skillInline = regexp.MustCompile("`(\\{\"(?:resume|continuation_token)\".*?\\})`")
)

// TestSkill sends the examples of the skill, in order, to a server with the skill's functions.
func TestSkill(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	skill, err := os.ReadFile("../deploy/plugin/skills/onecall/SKILL.md")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(folder, "notes"), 0o755); err != nil {
		t.Fatal(err)
	}
	clitest.Write(t, folder, "notes/one.txt", "owner: ada\ndue: monday\n")
	clitest.Write(t, folder, "notes/two.txt", "owner: grace\ndue: friday\n")
	served := serveHTTP(t, writeJSON(t, folder, "onecall.json", map[string]any{
		"mcpServers": map[string]any{"memory": npmServers(npmPackages(t), folder)["memory"]},
		"fs":         map[string]string{"root": folder}, "access": map[string]string{"http": "read_write"},
	}))
	w := stateless(t, served.url)
	w.ready(t, 1)
	run, blocks := "", skillBlock.FindAllStringSubmatch(string(skill), -1)
	if len(blocks) < 4 {
		t.Fatalf("the skill has %d examples, want at least 4", len(blocks))
	}
	for _, block := range blocks {
		text, failed := w.tool(t, "chain", json.RawMessage(strings.Replace(block[1], "run_…", run, 1)))
		if want := strings.ReplaceAll(regexp.QuoteMeta(block[2]), "…", "(?s:.*?)"); !regexp.MustCompile("^" + want).MatchString(text) {
			t.Errorf("%s\nreturned %s\nwant, as in the skill, %s", block[1], text, block[2])
		}
		if resumes := strings.Contains(block[1], "run_…"); resumes && (failed || gjson.Get(text, "steps.0.status").Str != "reused") {
			t.Errorf("the resume returned %s, want the first step reused", text)
		}
		run = gjson.Get(text, "resume").Str
	}
	lines := skillInline.FindAllStringSubmatch(string(skill), -1)
	if len(lines) < 2 {
		t.Errorf("the skill has %d inline requests, want at least 2", len(lines))
	}
	for _, line := range lines { // they use tokens and runs that do not exist here
		if text, _ := w.tool(t, "chain", json.RawMessage(line[1])); gjson.Get(text, "error.code").Str != "token_expired" {
			t.Errorf("%s returned %s, want token_expired", line[1], text)
		}
	}
}
