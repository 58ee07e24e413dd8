package clients

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// newLayout returns a layout with an empty home, for a client.
func newLayout(t *testing.T, id string) *layout {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "home")
	return &layout{machine: &machine{system: "linux", home: folder, getenv: noVariable}, client: Find(id)}
}

func (l *layout) homePath(name string) string { return filepath.Join(l.machine.home, name) }

// wantRefused plans an installation, and carries it out if it can be planned. Either must fail with a coded error that says want, and no
// file may change.
func (l *layout) wantRefused(t *testing.T, want string) {
	t.Helper()
	before := l.files(t)
	p, err := l.machine.install(l.client, l.homePath("onecall/onecall.yaml"), "/usr/local/bin/onecall", os.LookupEnv)
	if err == nil {
		err = p.Apply(t.Context())
	}
	if _, coded := fault.As(err); !coded || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	after := l.files(t)
	for name, text := range before {
		if after[name] != text {
			t.Errorf("a refused installation changed %s to %q", name, after[name])
		}
	}
}

// manyServers returns a client's file with n servers.
func manyServers(n int) string {
	servers := make([]string, n)
	for i := range servers {
		servers[i] = fmt.Sprintf(`"s%d": {"command": "s"}`, i)
	}
	return `{"mcpServers": {` + strings.Join(servers, ", ") + `}}`
}

func TestInstallRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ id, path, text, want string }{
		"broken json": {"cursor", ".cursor/mcp.json", `{"mcpServers": {`, "mcp.json: line 1 is not JSON: correct it first"},
		"broken toml": {"codex", ".codex/config.toml", "a = 1\nb = \n", "config.toml: line 2 is not TOML: correct it first"},
		"broken yaml": {"goose", ".config/goose/config.yaml", "a: 1\nb: [\n", "is not YAML: correct it first"},
		"many servers": {"cursor", ".cursor/mcp.json", manyServers(maxServers + 1),
			"has 251 servers, and at most 250 are moved"},
		"another shape": {"cursor", ".cursor/mcp.json", `{"mcpServers": []}`, "mcpServers is not an object: correct it first"},
		"not UTF-8":     {"cursor", ".cursor/mcp.json", "{\"a\": \"\xff\"}", "it is not UTF-8"},
		"another onecall": {"cursor", ".cursor/mcp.json", `{"mcpServers": {"onecall": {"command": "else", "cwd": "${workspaceFolder}"}}}`,
			"has another server by the name onecall"},
		"disabled onecall": {"cline", ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
			`{"mcpServers": {"onecall": {"command": "onecall", "args": ["serve"], "disabled": true}}}`,
			"has a server by the name onecall, which is disabled: enable or remove it"},
		"inline toml": {"codex", ".codex/config.toml", "[mcp_servers]\nonecall = {command = \"onecall\"}\n",
			"write each as [mcp_servers.NAME]"},
		"no folder":     {"cursor", "else", "", ".cursor does not exist: start Cursor once"},
		"a folder":      {"cursor", ".cursor/mcp.json/x", "", "mcp.json cannot be read: it is a folder"},
		"two packages":  {"claude-desktop", "AppData/Local/Packages/Claude_a/x", "", "several installations"},
		"configuration": {"cursor", "onecall/onecall.yaml", "mcpServers: 5\n", "onecall.yaml, line 1, column 13, does not load"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLayout(t, test.id)
			seed(t, l.homePath(test.path), test.text)
			if test.id == "claude-desktop" {
				l.machine.system = "windows"
				seed(t, l.homePath("AppData/Local/Packages/Claude_b/x"), "")
			}
			if name == "configuration" {
				seed(t, l.homePath(".cursor/mcp.json"), `{}`)
			}
			l.wantRefused(t, test.want)
		})
	}
}

// TestInstallThroughLink: a link stays a link, its target is written and keeps its permissions, and the record is beside the link.
func TestInstallThroughLink(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("symlinks need privileges on Windows")
	}
	l := newLayout(t, "cursor")
	symlink, target := l.homePath(".cursor/mcp.json"), l.homePath("dotfiles/mcp.json")
	const before = `{"mcpServers": {"a": {"command": "a"}}}`
	seed(t, target, before)
	if err := errors.Join(os.Chmod(target, 0o640), os.Mkdir(filepath.Dir(symlink), 0o700), os.Symlink(target, symlink)); err != nil {
		t.Fatal(err)
	}
	apply(t, l.plan(t))
	info, err := os.Stat(target)
	if to, linked := os.Readlink(symlink); err != nil || linked != nil || to != target || info.Mode().Perm() != 0o640 {
		t.Errorf("got link to %s, %v; target %v, %v, want a link to %s of mode 0640", to, linked, info.Mode(), err, target)
	}
	if text := string(readText(t, target)); !strings.Contains(text, "onecall") || strings.Contains(text, `"a"`) {
		t.Errorf("got %s, want the server onecall, and not a", text)
	}
	apply(t, l.uninstall(t))
	if text := string(readText(t, target)); text != before {
		t.Errorf("after the uninstallation: got %s, want %s", text, before)
	}

	if err := os.Remove(target); err != nil {
		t.Fatal(err)
	}
	if _, err := l.machine.install(l.client, l.homePath("onecall/onecall.yaml"), "onecall", os.LookupEnv); err == nil ||
		!strings.Contains(err.Error(), "is a link to a file that does not exist") {
		t.Errorf(`got error %v, want "is a link to a file that does not exist"`, err)
	}
}

func TestInstallReadOnly(t *testing.T) {
	t.Parallel()
	l := newLayout(t, "cursor")
	path := l.homePath(".cursor/mcp.json")
	seed(t, path, `{}`)
	if err := os.Chmod(path, 0o444); err != nil {
		t.Fatal(err)
	}
	l.wantRefused(t, "mcp.json is read-only: make it writable")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	p := l.plan(t)
	if err := p.writeRecord(); err != nil { // all that an installation does if it is interrupted at once
		t.Fatal(err)
	}
	if _, err := l.machine.uninstall(l.client); err == nil || !strings.Contains(err.Error(), "is as it was before onecall was installed") {
		t.Errorf(`uninstall: got error %v, want "is as it was before onecall was installed"`, err)
	}
	apply(t, l.plan(t))
	apply(t, l.uninstall(t))
	if text := string(readText(t, path)); text != `{}` {
		t.Errorf("after the uninstallation: got %s, want {}", text)
	}
}

// TestInstallAfterChange: if a file is changed while the user is asked, it is not overwritten, and nothing else is written.
func TestInstallAfterChange(t *testing.T) {
	t.Parallel()
	const client, configuration, server = ".cursor/mcp.json", "onecall/onecall.yaml", `{"mcpServers": {"a": {"command": "a"}}}`
	for name, test := range map[string]struct{ before, changed, text string }{
		"client":                {"surface: flat\n", client, `{"new": 1}`},
		"configuration":         {"surface: flat\n", configuration, "surface: flat\naccess: {stdio: read_only}\n"},
		"new configuration":     {"", configuration, "surface: flat\n"},
		"empty configuration":   {"", configuration, ""},
		"configuration removed": {"surface: flat\n", configuration, "remove"},
		// Nothing would be added to the configuration, and the server would be lost.
		"known server removed": {"mcpServers: {a: {command: a}}\n", configuration, "surface: flat\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLayout(t, "cursor")
			seed(t, l.homePath(client), server)
			if test.before != "" {
				seed(t, l.homePath(configuration), test.before)
			}
			p := l.plan(t)
			if test.text == "remove" {
				if err := os.Remove(l.homePath(test.changed)); err != nil {
					t.Fatal(err)
				}
			} else {
				seed(t, l.homePath(test.changed), test.text)
			}
			before := l.files(t)
			err := p.Apply(t.Context())
			if want := filepath.Base(test.changed) + " has changed in the meantime: run this again; nothing was changed"; err == nil ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			} else if _, coded := fault.As(err); !coded {
				t.Errorf("error %v has no code, want one", err)
			}
			if after := l.files(t); !maps.Equal(before, after) {
				t.Errorf("a failed installation changed %q to %q", before, after)
			}
		})
	}
}

// TestInstallFails: an installation that cannot write the configuration leaves nothing to remove.
func TestInstallFails(t *testing.T) {
	t.Parallel()
	l := newLayout(t, "cursor")
	path := l.homePath(".cursor/mcp.json")
	seed(t, path, `{"mcpServers": {"a": {"command": "a"}}}`)
	long := strings.Repeat("x", 240) + ".yaml" // the name of a temporary file next to it is too long
	p, err := l.machine.install(l.client, l.homePath("onecall/"+long), "/usr/local/bin/onecall", os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Apply(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot be written") {
		t.Errorf(`Apply: got error %v, want "cannot be written"`, err)
	}
	if _, err := os.Stat(recordPath(path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a failed installation left its record: %v", err)
	}
	if _, err := l.machine.uninstall(l.client); err == nil ||
		!strings.Contains(err.Error(), "nothing to do: init --install has not installed onecall in Cursor") {
		t.Errorf(`uninstall: got error %v, want "nothing to do"`, err)
	}
}

// TestConfigurationBackup: each text of the configuration that an installation changes is kept beside it, once, and stays.
func TestConfigurationBackup(t *testing.T) {
	t.Parallel()
	l := newLayout(t, "cursor")
	path, configuration := l.homePath(".cursor/mcp.json"), l.homePath("onecall/onecall.yaml")
	seed(t, configuration, "surface: flat\n")
	if err := os.Chmod(configuration, 0o644); err != nil {
		t.Fatal(err)
	}
	seed(t, path, `{"mcpServers": {"a": {"command": "a"}}}`)
	if err := l.plan(t).writeRecord(); err != nil { // an installation that is interrupted at once
		t.Fatal(err)
	}
	apply(t, l.plan(t))
	between := string(readText(t, configuration))
	seed(t, path, strings.Replace(string(readText(t, path)), `"onecall"`, `"b": {"command": "b"}, "onecall"`, 1))
	apply(t, l.plan(t))
	apply(t, l.plan(t)) // nothing changes
	apply(t, l.uninstall(t))
	files := l.files(t)
	if got := files["onecall/onecall.yaml.before-onecall"]; got != "surface: flat\n" {
		t.Errorf("the first backup is %q, want the original text", got)
	}
	if got := files["onecall/onecall.yaml.before-onecall-2"]; got != between || !strings.Contains(got, "command: a") {
		t.Errorf("the second backup is %q, want the text between the installations", got)
	}
	if _, more := files["onecall/onecall.yaml.before-onecall-3"]; more {
		t.Error("a third backup exists")
	}
	info, err := os.Stat(configuration + ".before-onecall")
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the backup has mode %v, want 0600", info.Mode())
	}
}

// TestInstallWithoutFile: a file that onecall made is removed with it.
func TestInstallWithoutFile(t *testing.T) {
	t.Parallel()
	l := newLayout(t, "windsurf")
	seed(t, l.homePath(".codeium/windsurf/x"), "")
	p := l.plan(t)
	apply(t, p)
	if text := string(readText(t, p.file)); !strings.Contains(text, "/usr/local/bin/onecall") {
		t.Errorf("got %s, want /usr/local/bin/onecall in it", text)
	}
	apply(t, l.uninstall(t))
	if _, err := os.Stat(p.file); !os.IsNotExist(err) {
		t.Errorf("Stat of %s: got error %v, want it not to exist", p.file, err)
	}
	if _, err := l.machine.uninstall(l.client); err == nil ||
		!strings.Contains(err.Error(), "nothing to do: init --install has not installed onecall in Windsurf") {
		t.Errorf(`uninstall: got error %v, want "nothing to do"`, err)
	}
}

// TestInstallIntoConfiguration: the configuration keeps what it has, and its comments. A server that it already has is not added; another
// server with the same name gets a new name.
func TestInstallIntoConfiguration(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]string{
		"onecall.yaml": "# mine\nmcpServers:\n  same: {command: x, args: [a]} # of old\n  other:\n    command: x\n  off: {command: off, " +
			"disabled: true}\nsurface: flat\n",
		"onecall.json": `{"mcpServers": {"same": {"command": "x", "args": ["a"]}, "other": {"command": "x"}, "off": {"command": "off", "disabled": true}}, "surface": "flat"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLayout(t, "cursor")
			seed(t, l.homePath(name), before)
			seed(t, l.homePath(".cursor/mcp.json"),
				`{"mcpServers": {"same": {"args": ["a"], "command": "x"}, "other": {"command": "y", "env": {"A_TOKEN": "literal-secret"}}, "off": {"command": "off"}}}`)
			p, err := l.machine.install(l.client, l.homePath(name), "/usr/local/bin/onecall", os.LookupEnv)
			if err != nil {
				t.Fatal(err)
			}
			report := string(p.Report())
			for _, want := range []string{"  same: moves: it is in onecall's configuration already\n",
				"  other: moves, as other-2: that name is taken\n", "  off: moves, as off-2"} {
				if !strings.Contains(report, want) {
					t.Errorf("the report lacks %q:\n%s", want, report)
				}
			}
			if strings.Contains(report, "literal-secret") || strings.Contains(report, "# mine") {
				t.Errorf("the report shows a secret or a comment:\n%s", report)
			}
			apply(t, p)
			text := readText(t, l.homePath(name))
			c, faults := parseIn(nil, name, string(text))
			if len(faults) > 0 || len(c.MCPServers) != 5 || *c.MCPServers[3].Config.Command != "y" {
				t.Errorf("got faults %v of\n%s\nwant 5 servers, the fourth with command y", faults, text)
			}
			if name == "onecall.yaml" &&
				(!strings.HasPrefix(string(text), "# mine\nmcpServers:\n  same: {command: x, args: [a]} # of old\n") ||
					!strings.HasSuffix(string(text), "surface: flat\n")) {
				t.Errorf("got\n%s\nwant the previous text, with its comments and its last line", text)
			}
		})
	}
}

// TestUninstallKeeps: an entry that the user has since written under the name of a moved server stays.
func TestUninstallKeeps(t *testing.T) {
	t.Parallel()
	l := newLayout(t, "cursor")
	path := l.homePath(".cursor/mcp.json")
	seed(t, path, "{\"mcpServers\": {\"a\": {\"command\": \"a\"}, \"b\": {\"command\": \"b\"}}}")
	apply(t, l.plan(t))
	seed(t, path, "{\"mcpServers\": {\"a\": {\"command\": \"new\"}}}")
	p := l.uninstall(t)
	if report := string(p.Report()); !strings.Contains(report, "a exists again, and is left unchanged") ||
		!strings.Contains(report, "so does the backup "+path+".before-onecall") {
		t.Errorf("got report\n%s\nwant it to say that a is unchanged, and to name the backup", report)
	}
	apply(t, p)
	if text := string(readText(t, path)); text != `{"mcpServers": {"a": {"command": "new"},"b": {"command": "b"}}}` {
		t.Errorf("got %s, want the new a and b", text)
	}
	if text := string(readText(t, path+".before-onecall")); !strings.Contains(text, `"a"`) {
		t.Errorf("got backup %s, want the server a", text)
	}
}

// TestTarget checks which of Claude Desktop's files on Windows is written.
func TestTarget(t *testing.T) {
	t.Parallel()
	const classic, a, b = "AppData/Roaming/Claude/", "AppData/Local/Packages/Claude_a/", "AppData/Local/Packages/Claude_b/"
	const inside, file = "LocalCache/Roaming/Claude/", "claude_desktop_config.json"
	for name, test := range map[string]struct {
		present []string
		want    string
	}{
		"nothing": {nil, classic + file}, "classic": {[]string{classic + file}, classic + file},
		"packaged": {[]string{a + inside + file}, a + inside + file},
		"both":     {[]string{classic + file, a + inside + file}, a + inside + file}, "fresh package": {[]string{a + "x"}, a + inside + file},
		"classic, fresh package": {[]string{a + "x", classic + file}, classic + file},
		"two":                    {[]string{a + inside + file, b + inside + file}, ""},
		"two fresh":              {[]string{a + "x", b + "x"}, ""}, "one of two": {[]string{a + "x", b + inside + file}, b + inside + file},
	} {
		l := newLayout(t, "claude-desktop")
		l.machine.system = "windows"
		for _, path := range test.present {
			seed(t, l.homePath(path), "{}")
		}
		got, err := l.machine.target(l.client)
		if want := l.homePath(test.want); test.want != "" && got != want || (test.want == "") != (err != nil) {
			t.Errorf("%s: got %s, %v, want %q, or an error if it is empty", name, got, err, test.want)
		}
	}
}

// TestInstallByClientCommand: other changes by the client's own command are not undone, and if the command fails or does nothing, onecall
// edits the file.
func TestInstallByClientCommand(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the client is a shell script")
	}
	const before = `{"mcpServers": {"a": {"command": "a"}}}`
	for name, test := range map[string]struct{ script, want string }{
		"adds": {`echo '{"mcpServers": {"a": {"command": "a"}, "onecall": '"$5"'}}' > "$FILE"`, before},
		"more": {`echo '{"mcpServers": {"a": {"command": "a"}, "onecall": '"$5"'}, "starts": 1}' > "$FILE"`,
			`{"mcpServers": {"a": {"command": "a"}}, "starts": 1}` + "\n"},
		"fails":   {`exit 1`, before},
		"nothing": {`true`, before},
	} {
		t.Run(name, func(t *testing.T) { // not in parallel: a script that is written while another process starts is busy
			l := newLayout(t, "claude-code")
			path, program := l.homePath(".claude.json"), l.homePath("bin/claude")
			seed(t, path, before)
			seed(t, program, "#!/bin/sh\nshift\n"+strings.ReplaceAll(test.script, "$FILE", path)+"\n")
			if err := os.Chmod(program, 0o700); err != nil {
				t.Fatal(err)
			}
			l.machine.program = func(string) (string, error) { return program, nil }
			apply(t, l.plan(t))
			if got := entriesOf(t, path, l.client); len(got) != 1 || !strings.Contains(got["onecall"], "/usr/local/bin/onecall") {
				t.Errorf("got %v, want only onecall, started as /usr/local/bin/onecall", got)
			}
			apply(t, l.uninstall(t))
			if got := string(readText(t, path)); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}
