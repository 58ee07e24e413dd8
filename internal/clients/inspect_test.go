package clients

import (
	"path/filepath"
	"slices"
	"testing"
)

// TestInspect: in each client's layout, its servers are found, and onecall after it is installed.
func TestInspect(t *testing.T) {
	t.Parallel()
	eachLayout(t, func(t *testing.T, l *layout) {
		states := func() (seen []FileState) {
			for _, one := range l.machine.inspect() {
				if one.Client == l.client && !one.Project {
					seen = append(seen, one)
				}
			}
			return seen
		}
		others := 0
		for _, one := range states() {
			if others += len(one.Others); one.Problem != "" || len(one.Starts) > 0 {
				t.Errorf("before the installation: %+v, want no problem and no onecall", one)
			}
		}
		if empty := l.machine.system == "windows" && l.client.ID != "claude-desktop"; (others == 0) != empty {
			t.Errorf("%d other servers before the installation, want none: %t", others, empty)
		}
		configuration := filepath.Join(l.machine.home, "onecall.yaml")
		plan, err := l.machine.install(l.client, configuration, "/usr/local/bin/onecall", func(string) (string, bool) { return "value", true })
		if err != nil {
			t.Fatal(err)
		}
		if err := plan.Apply(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := Start{Name: "onecall", Command: "/usr/local/bin/onecall", Serves: true, Configuration: configuration}
		after := states()
		i := slices.IndexFunc(after, func(s FileState) bool { return slices.Contains(s.Starts, want) })
		if i < 0 || after[i].Problem != "" || after[i].File != plan.file {
			t.Fatalf("after the installation: %+v, want one entry of onecall", after)
		}
		if left := len(after[i].Others); others > 0 && left >= others {
			t.Errorf("%d other servers after the installation, want fewer than %d", left, others)
		}
	})
}

// TestInspectConfiguration: the configuration of an entry is found in every form that onecall accepts.
func TestInspectConfiguration(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{
		`"args": ["serve", "--config", "/a.yaml"]`: "/a.yaml", `"args": ["serve", "--config=/b.yaml"]`: "/b.yaml",
		`"args": ["serve"], "env": {"ONECALL_CONFIG": "/c.yaml"}`:                        "/c.yaml",
		`"args": ["--config", "/d.yaml", "serve"], "env": {"ONECALL_CONFIG": "/c.yaml"}`: "/d.yaml",
		`"args": ["serve"]`: "",
	} {
		home := t.TempDir()
		m := &machine{system: "linux", home: home, project: home, getenv: noVariable}
		seed(t, filepath.Join(home, ".cursor", "mcp.json"), `{"mcpServers": {"onecall": {"command": "onecall", `+entry+`}}}`)
		if seen := m.inspect(); len(seen) != 1 || len(seen[0].Starts) != 1 || seen[0].Starts[0].Configuration != want {
			t.Errorf("%s: got %+v, want one start with the configuration %s", entry, seen, want)
		}
	}
}

// TestInspectBroken: a file that cannot be read is reported with the reason, and hides no other file.
func TestInspectBroken(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	m := &machine{system: "linux", home: home, project: home, getenv: noVariable}
	seed(t, filepath.Join(home, ".cursor", "mcp.json"), `{"mcpServers":`)
	seed(t, filepath.Join(home, ".codex", "config.toml"),
		"[mcp_servers.onecall]\nurl = \"http://127.0.0.1:8080/mcp\"\n[mcp_servers.db]\ncommand = \"db\"\n")
	seen := m.inspect()
	if len(seen) != 2 || seen[0].Problem == "" || seen[0].Client.ID != "cursor" {
		t.Fatalf("got %+v, want 2 clients, the first cursor with a problem", seen)
	}
	if codex := seen[1]; codex.Problem != "" || len(codex.Starts) != 0 || !slices.Equal(codex.Others, []string{"db"}) {
		t.Errorf("got %+v, want no problem, no start and the other server db", codex)
	}
}
