//go:build unix

package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// In the skill, what an agent sends to chain stands in a block, or in a line, and what is answered in the line behind its block.
var (
	skillBlock  = regexp.MustCompile("(?s)```json\n(.*?)```\n\n(?:answers `([^\n]*)`\n)?")
	skillInline = regexp.MustCompile("`(\\{\"(?:resume|continuation_token)\".*?\\})`")
)

// TestSkill sends the skill's examples to a server with the skill's functions, as its reader would, in their order.
func TestSkill(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	skill, err := os.ReadFile("../../deploy/plugin/skills/onecall/SKILL.md")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(folder, "notes"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, folder, "notes/one.txt", "owner: ada\ndue: monday\n")
	write(t, folder, "notes/two.txt", "owner: grace\ndue: friday\n")
	served := serveHTTP(t, writeJSON(t, folder, "onecall.json", map[string]any{
		"mcpServers": map[string]any{"memory": npmServers(npmPackages(t), folder)["memory"]},
		"fs":         map[string]string{"root": folder}, "access": map[string]string{"http": "read_write"},
	}))
	w := stateless(t, served.url)
	w.ready(t, 1)
	run, blocks := "", skillBlock.FindAllStringSubmatch(string(skill), -1)
	if len(blocks) < 4 {
		t.Fatalf("%d examples", len(blocks))
	}
	for _, block := range blocks {
		text, failed := w.tool(t, "chain", json.RawMessage(strings.Replace(block[1], "run_…", run, 1)))
		if want := strings.ReplaceAll(regexp.QuoteMeta(block[2]), "…", "(?s:.*?)"); !regexp.MustCompile("^" + want).MatchString(text) {
			t.Errorf("%s\nanswers %s\nand the skill shows %s", block[1], text, block[2])
		}
		if resumes := strings.Contains(block[1], "run_…"); resumes && (failed || gjson.Get(text, "steps.0.status").Str != "reused") {
			t.Errorf("the resume answers %s", text)
		}
		run = gjson.Get(text, "resume").Str
	}
	lines := skillInline.FindAllStringSubmatch(string(skill), -1)
	if len(lines) < 2 {
		t.Errorf("%d lines", len(lines))
	}
	for _, line := range lines { // of tokens and runs that are not there
		if text, _ := w.tool(t, "chain", json.RawMessage(line[1])); gjson.Get(text, "error.code").Str != "token_expired" {
			t.Errorf("%s answers %s", line[1], text)
		}
	}
}
