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

// only reports members of an object that it may not have, and those that it lacks.
func only(t *testing.T, what string, object map[string]any, required, optional []string) {
	t.Helper()
	for name := range object {
		if !slices.Contains(required, name) && !slices.Contains(optional, name) {
			t.Errorf("%s may not have %q", what, name)
		}
	}
	for _, name := range required {
		if object[name] == nil {
			t.Errorf("%s lacks %q", what, name)
		}
	}
}

// TestAgentPlugin holds the plugin to Agent Plugins 1.0.0: two closed files of the same version, a name of a narrow form, and a command
// that is one word.
func TestAgentPlugin(t *testing.T) {
	t.Parallel()
	const schemas = "https://agent-plugins.org/schemas/1.0.0/"
	manifest := readObject(t, "plugin/plugin.json")
	only(t, "plugin.json", manifest, []string{"$schema", "name"},
		[]string{"version", "description", "author", "homepage", "repository", "license", "keywords", "extensions"})
	only(t, "author", manifest["author"].(map[string]any), nil, []string{"name", "email", "url"})
	if manifest["$schema"] != schemas+"plugin.schema.json" {
		t.Errorf("plugin.json is of %v", manifest["$schema"])
	}
	name := manifest["name"].(string)
	if !regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?$`).MatchString(name) || strings.Contains(name, "--") ||
		strings.Contains(name, "..") {
		t.Errorf("%q is not a name", name)
	}

	servers := readObject(t, "plugin/mcp.json")
	only(t, "mcp.json", servers, []string{"$schema", "mcpServers"}, nil)
	if servers["$schema"] != schemas+"mcp.schema.json" {
		t.Errorf("mcp.json is of %v", servers["$schema"])
	}
	entry := servers["mcpServers"].(map[string]any)["onecall"].(map[string]any)
	only(t, "the server", entry, []string{"type", "command"}, []string{"args", "env", "cwd"})
	if entry["type"] != "stdio" || !regexp.MustCompile(`^[\w-]+$`).MatchString(entry["command"].(string)) {
		t.Errorf("the server is %v", entry)
	}
}

// TestClaudePlugin: Claude Code finds the plugin by the marketplace in the repository's root, and starts what other hosts start.
func TestClaudePlugin(t *testing.T) {
	t.Parallel()
	const root = ".."
	market := readObject(t, filepath.Join(root, ".claude-plugin", "marketplace.json"))
	only(t, "marketplace.json", market, []string{"name", "description", "owner", "plugins"}, nil)
	listed := market["plugins"].([]any)[0].(map[string]any)
	manifest := readObject(t, filepath.Join(root, listed["source"].(string), ".claude-plugin", "plugin.json"))
	portable := readObject(t, "plugin/plugin.json")
	for _, same := range []string{"name", "description", "author", "license"} {
		if one, other := encoded(t, manifest[same]), encoded(t, portable[same]); one != other {
			t.Errorf("the %s is %s here and %s there", same, one, other)
		}
	}
	if listed["name"] != manifest["name"] {
		t.Errorf("the marketplace has %v, and the plugin is %v", listed["name"], manifest["name"])
	}
	entry := maps.Clone(manifest["mcpServers"].(map[string]any)["onecall"].(map[string]any))
	delete(entry, "alwaysLoad") // Claude Code alone has it
	entry["type"] = "stdio"
	other := readObject(t, "plugin/mcp.json")["mcpServers"].(map[string]any)["onecall"]
	if encoded(t, entry) != encoded(t, other) {
		t.Errorf("Claude Code starts %v, other hosts %v", entry, other)
	}
}

// TestPluginHook: Claude Code asks onecall hook before each call of the plugin's own tools, by the name that it gives them.
func TestPluginHook(t *testing.T) {
	t.Parallel()
	file := readObject(t, "plugin/hooks/hooks.json")
	only(t, "hooks.json", file, []string{"hooks"}, []string{"description"})
	before := file["hooks"].(map[string]any)["PreToolUse"].([]any)[0].(map[string]any)
	matcher := regexp.MustCompile("^(?:" + before["matcher"].(string) + ")$")
	manifest := readObject(t, "plugin/.claude-plugin/plugin.json")
	for server, entry := range manifest["mcpServers"].(map[string]any) {
		for _, tool := range []string{"chain", "chain_read", "items"} {
			if name := "mcp__plugin_" + manifest["name"].(string) + "_" + server + "__" + tool; !matcher.MatchString(name) {
				t.Errorf("the hook is not asked before %s", name)
			}
		}
		command := before["hooks"].([]any)[0].(map[string]any)["command"]
		if started := entry.(map[string]any)["command"]; command != started.(string)+" hook" {
			t.Errorf("the hook is %v, and the server is started by %v", command, started)
		}
	}
	if matcher.MatchString("mcp__github__chain") {
		t.Error("the hook is asked before tools of other servers")
	}
}

// TestPluginSkill checks that the skill has the form of Agent Skills: a front matter with the fields that a host knows, the name of its
// folder, and a description of at most 1,024 characters.
func TestPluginSkill(t *testing.T) {
	t.Parallel()
	skills, err := filepath.Glob("plugin/skills/*/SKILL.md")
	if err != nil || len(skills) != 1 {
		t.Fatalf("the skills are %v, %v", skills, err)
	}
	text, err := os.ReadFile(skills[0])
	if err != nil {
		t.Fatal(err)
	}
	front, body, ok := strings.Cut(strings.TrimPrefix(string(text), "---\n"), "\n---\n")
	if !ok || len(strings.TrimSpace(body)) == 0 {
		t.Fatal("the skill has no front matter, or nothing behind it")
	}
	fields := map[string]any{}
	if err := yaml.Unmarshal([]byte(front), &fields); err != nil {
		t.Fatal(err)
	}
	only(t, "SKILL.md", fields, []string{"name", "description"}, []string{"license", "compatibility", "metadata", "allowed-tools"})
	if name := fields["name"]; name != filepath.Base(filepath.Dir(skills[0])) {
		t.Errorf("the skill %v is in %s", name, skills[0])
	}
	if n := utf8.RuneCountInString(fields["description"].(string)); n > 1024 {
		t.Errorf("the description has %d characters", n)
	}
}

func encoded(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
