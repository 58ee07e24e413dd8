package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

func TestClientFiles(t *testing.T) {
	t.Parallel()
	none := func(string) string { return "" }
	tests := []struct {
		m    machine
		want []string
	}{
		{machine{system: "linux", home: "/home/me", project: "/p", getenv: none},
			[]string{"/home/me/.config/Claude/claude_desktop_config.json", "/home/me/.claude.json", "/home/me/.cursor/mcp.json",
				"/home/me/.config/Code/User/mcp.json", "/home/me/.config/Code/User/settings.json", "/home/me/.codeium/windsurf/mcp_config.json",
				"/p/.mcp.json", "/p/.cursor/mcp.json", "/p/.vscode/mcp.json", "/p/.vscode/settings.json"}},
		{machine{system: "linux", home: "/home/me", project: "/p", getenv: func(name string) string {
			return map[string]string{"XDG_CONFIG_HOME": "/xdg", "CLAUDE_CONFIG_DIR": "/claude"}[name]
		}},
			[]string{"/xdg/Claude/claude_desktop_config.json", "/xdg/Code/User/mcp.json", "/claude/.claude.json"}},
		{machine{system: "darwin", home: "/Users/me", project: "/p", getenv: none},
			[]string{"/Users/me/Library/Application Support/Claude/claude_desktop_config.json",
				"/Users/me/Library/Application Support/Code/User/mcp.json", "/Users/me/.codeium/windsurf/mcp_config.json"}},
		{machine{system: "windows", home: "/u", project: "/p",
			getenv: func(name string) string { return map[string]string{"APPDATA": "/roaming"}[name] }},
			[]string{"/roaming/Claude/claude_desktop_config.json", "/roaming/Code/User/mcp.json", "/u/.codeium/windsurf/mcp_config.json",
				"/u/.cursor/mcp.json"}},
		{machine{system: "windows", home: "/u", project: "/p", getenv: none}, []string{"/u/AppData/Roaming/Claude/claude_desktop_config.json"}},
	}
	for _, test := range tests {
		var got []string
		for _, file := range test.m.clientFiles() {
			got = append(got, filepath.ToSlash(file.path))
		}
		for _, want := range test.want {
			if !slices.Contains(got, want) {
				t.Errorf("%s: clientFiles lacks %s: %q", test.m.system, want, got)
			}
		}
	}
}

// TestRecognizesOnecall: onecall is recognized by its command or by the package that is run, and by no other argument.
func TestRecognizesOnecall(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]bool{
		`{"command": "onecall"}`: true, `{"command": "C:\\x\\OneCall.exe", "args": ["serve"]}`: true,
		`{"command": "npx", "args": ["-y", "onecall@1", "serve"]}`:                                true,
		`{"command": "npx", "args": ["-p", "other", "onecall"]}`:                                  true,
		`{"command": "go", "args": ["run", "github.com/onecall-mcp/onecall/cmd/onecall@latest"]}`: true,
		`{"command": "cmd", "args": ["/c", "npx", "-y", "onecall"]}`:                              true, `{"command": "env", "args": ["A=b", "/usr/bin/onecall"]}`: true,
		`{"command": "npm", "args": ["exec", "--", "onecall"]}`:                                             true,
		`{"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/me/onecall"]}`: false,
		`{"command": "git-mcp", "args": ["--repository", "onecall"]}`:                                       false,
		`{"command": "npx", "args": ["-y", "x", "onecall"]}`:                                                false, `{"command": "go", "args": ["test", "onecall"]}`: false,
		`{"command": "/srv/onecall/bin/x"}`: false, `{"url": "https://h/onecall"}`: false, `{"command": "npx"}`: false,
	} {
		if got := isOnecall(gjson.Parse(server)); got != want {
			t.Errorf("isOnecall(%s) = %v, want %v", server, got, want)
		}
	}
}

// TestImportRoundTrip: the written file preserves all texts of a client's file.
func TestImportRoundTrip(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(rapid.String(),
		rapid.SampledFrom([]string{"", "yes", "null", "~", "1.10", "0x1F", "a: b", "# c", "-", "- x", "{", "*a", "&a", "!t", "a\nb", "'", `"`,
			"\\", "<<", "@x", "%", "`", "é", "\u2028", "$${x}", "${", "true", "1e3", "2024-01-01"}))
	rapid.Check(t, func(rt *rapid.T) {
		args := rapid.SliceOfN(text, 0, 4).Draw(rt, "args")
		env := rapid.MapOfN(rapid.StringMatching(`[A-Za-z0-9_.:~ -]{1,8}`), text, 0, 3).Draw(rt, "env")
		command := text.Filter(func(s string) bool { return s != "" }).Draw(rt, "command")
		object := fmt.Sprintf(`{"command":%s,"args":[`, gjson.AppendJSONString(nil, command))
		for i, arg := range args {
			object += strings.Repeat(",", min(i, 1)) + string(gjson.AppendJSONString(nil, arg))
		}
		object += `],"env":{`
		for i, key := range sortedKeys(env) {
			object += strings.Repeat(",", min(i, 1)) + string(gjson.AppendJSONString(nil, key)) + ":" + string(gjson.AppendJSONString(nil, env[key]))
		}
		object += `}}`
		name := text.Draw(rt, "name")
		im := &Import{out: "/x", project: "/x", lookup: func(string) (string, bool) { return "", false }}
		im.add(&clientFile{client: "c", path: "p"}, gjson.Parse(`{`+string(gjson.AppendJSONString(nil, name))+`:`+object+`}`), plainServers)
		im.assignNames()
		c, faults := parseIn(nil, "/x/onecall.yaml", string(im.Document()))
		if len(faults) > 0 {
			rt.Fatalf("%s\nimported as\n%s\nhas the faults %v, want none", object, im.Document(), faults)
		}
		if im.servers[0].skip != "" {
			return // a name or a command that a configuration cannot have
		}
		got := c.MCPServers[0]
		if len(im.servers[0].unset) > 0 {
			return
		}
		if got.Name != im.servers[0].name || *got.Config.Command != command || len(args) > 0 && !slices.Equal(got.Config.Args, args) ||
			len(env) > 0 && !reflect.DeepEqual(got.Config.Env, env) {
			rt.Fatalf("%s\nimported as\n%s\nloads as %+v", object, im.Document(), got)
		}
	})
}

func FuzzImport(f *testing.F) {
	f.Add([]byte(`{"mcpServers": {"a": {"command": "x", "args": [1, null, {}], "env": {"K": 5}}}}`))
	f.Add([]byte("// c\n{\"servers\": {\"a\": {\"url\": \"${input:x}\"}, \"a\": {\"url\": 1},},}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "x.json")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		im := &Import{out: "/x", project: "/x", lookup: func(string) (string, bool) { return "", false }}
		if im.read(clientFile{client: "c", path: path, sections: anySections}) != nil {
			return
		}
		im.assignNames()
		written := im.Document()
		if _, faults := parseIn(nil, "/x/onecall.yaml", string(written)); len(faults) > 0 {
			t.Errorf("%s\nhas the faults %v, want none", written, faults)
		}
		im.Report(written, "onecall.yaml")
	})
}
