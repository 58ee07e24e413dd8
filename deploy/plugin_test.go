package deploy

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
)

func readObject(t *testing.T, file string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return object
}

// checkMembers reports unknown and missing members of an object.
func checkMembers(t *testing.T, what string, object map[string]any, required, optional []string) {
	t.Helper()
	for name := range object {
		if !slices.Contains(required, name) && !slices.Contains(optional, name) {
			t.Errorf("%s has the unknown member %q", what, name)
		}
	}
	for _, name := range required {
		if object[name] == nil {
			t.Errorf("%s lacks %q", what, name)
		}
	}
}

// TestAgentPlugin checks the plugin against Agent Plugins 1.0.0: its two files have only known members and the same schema version, the
// name is valid, and the command is one word.
func TestAgentPlugin(t *testing.T) {
	t.Parallel()
	const schemas = "https://agent-plugins.org/schemas/1.0.0/"
	manifest := readObject(t, "plugin/plugin.json")
	checkMembers(t, "plugin.json", manifest, []string{"$schema", "name"},
		[]string{"version", "description", "author", "homepage", "repository", "license", "keywords", "extensions"})
	checkMembers(t, "author", manifest["author"].(map[string]any), nil, []string{"name", "email", "url"})
	if manifest["$schema"] != schemas+"plugin.schema.json" {
		t.Errorf("the $schema of plugin.json is %v, want %s", manifest["$schema"], schemas+"plugin.schema.json")
	}
	name := manifest["name"].(string)
	if !regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?$`).MatchString(name) || strings.Contains(name, "--") ||
		strings.Contains(name, "..") {
		t.Errorf("%q is not a valid name of a plugin", name)
	}

	servers := readObject(t, "plugin/mcp.json")
	checkMembers(t, "mcp.json", servers, []string{"$schema", "mcpServers"}, nil)
	if servers["$schema"] != schemas+"mcp.schema.json" {
		t.Errorf("the $schema of mcp.json is %v, want %s", servers["$schema"], schemas+"mcp.schema.json")
	}
	entry := servers["mcpServers"].(map[string]any)["onecall"].(map[string]any)
	checkMembers(t, "the server", entry, []string{"type", "command"}, []string{"args", "env", "cwd"})
	if entry["type"] != "stdio" || !regexp.MustCompile(`^[\w-]+$`).MatchString(entry["command"].(string)) {
		t.Errorf("the server is %v, want the type stdio and a command of one word", entry)
	}
}

// TestClaudePlugin checks that the marketplace in the repository's root leads Claude Code to the plugin, and that Claude Code starts the
// same server as other hosts.
func TestClaudePlugin(t *testing.T) {
	t.Parallel()
	const root = ".."
	marketplace := readObject(t, filepath.Join(root, ".claude-plugin", "marketplace.json"))
	checkMembers(t, "marketplace.json", marketplace, []string{"name", "description", "owner", "plugins"}, nil)
	listed := marketplace["plugins"].([]any)[0].(map[string]any)
	manifest := readObject(t, filepath.Join(root, listed["source"].(string), ".claude-plugin", "plugin.json"))
	portable := readObject(t, "plugin/plugin.json")
	for _, key := range []string{"name", "description", "author", "license"} {
		if got, want := encode(t, manifest[key]), encode(t, portable[key]); got != want {
			t.Errorf("%s: got %s for Claude Code, want %s as for other hosts", key, got, want)
		}
	}
	if listed["name"] != manifest["name"] {
		t.Errorf("the marketplace lists the plugin %v, want %v", listed["name"], manifest["name"])
	}
	entry := maps.Clone(manifest["mcpServers"].(map[string]any)["onecall"].(map[string]any))
	delete(entry, "alwaysLoad") // only Claude Code knows it
	entry["type"] = "stdio"
	portableEntry := readObject(t, "plugin/mcp.json")["mcpServers"].(map[string]any)["onecall"]
	if encode(t, entry) != encode(t, portableEntry) {
		t.Errorf("Claude Code starts %v, want %v as other hosts", entry, portableEntry)
	}
}

// TestPluginHook checks that Claude Code runs onecall hook before calls of the plugin's tools, by the names that it gives them, and before
// no others.
func TestPluginHook(t *testing.T) {
	t.Parallel()
	file := readObject(t, "plugin/hooks/hooks.json")
	checkMembers(t, "hooks.json", file, []string{"hooks"}, []string{"description"})
	hook := file["hooks"].(map[string]any)["PreToolUse"].([]any)[0].(map[string]any)
	matcher := regexp.MustCompile("^(?:" + hook["matcher"].(string) + ")$")
	manifest := readObject(t, "plugin/.claude-plugin/plugin.json")
	for server, entry := range manifest["mcpServers"].(map[string]any) {
		for _, tool := range []string{"chain", "chain_read", "items"} {
			if name := "mcp__plugin_" + manifest["name"].(string) + "_" + server + "__" + tool; !matcher.MatchString(name) {
				t.Errorf("the hook does not match %s", name)
			}
		}
		command := hook["hooks"].([]any)[0].(map[string]any)["command"]
		if started := entry.(map[string]any)["command"]; command != started.(string)+" hook" {
			t.Errorf("the hook runs %v, want %v hook, as the server is started", command, started)
		}
	}
	if matcher.MatchString("mcp__github__chain") {
		t.Error("the hook matches a tool of another server")
	}
}

// TestPluginSkill checks the skill against Agent Skills: its front matter has only known fields, its name is that of its folder, and its
// description has at most 1,024 characters.
func TestPluginSkill(t *testing.T) {
	t.Parallel()
	skills, err := filepath.Glob("plugin/skills/*/SKILL.md")
	if err != nil || len(skills) != 1 {
		t.Fatalf("skills %v, %v, want one", skills, err)
	}
	text, err := os.ReadFile(skills[0])
	if err != nil {
		t.Fatal(err)
	}
	front, body, ok := strings.Cut(strings.TrimPrefix(string(text), "---\n"), "\n---\n")
	if !ok || len(strings.TrimSpace(body)) == 0 {
		t.Fatal("the skill lacks front matter or a body")
	}
	fields := map[string]any{}
	if err := yaml.Unmarshal([]byte(front), &fields); err != nil {
		t.Fatal(err)
	}
	checkMembers(t, "SKILL.md", fields, []string{"name", "description"}, []string{"license", "compatibility", "metadata", "allowed-tools"})
	if name := fields["name"]; name != filepath.Base(filepath.Dir(skills[0])) {
		t.Errorf("the name of the skill is %v, want that of its folder, %s", name, filepath.Base(filepath.Dir(skills[0])))
	}
	if n := utf8.RuneCountInString(fields["description"].(string)); n > 1024 {
		t.Errorf("the description has %d characters, want at most 1024", n)
	}
}

func encode(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
