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

func TestFilesOfClients(t *testing.T) {
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
				t.Errorf("%s: %s is not looked at: %q", test.m.system, want, got)
			}
		}
	}
}

// importFiles reads files, given by their names and contents, as those of the machine's clients.
func importFiles(t *testing.T, environment map[string]string, files map[string]string) (*Import, []byte) {
	t.Helper()
	home := t.TempDir()
	m := &machine{system: "linux", home: home, project: filepath.Join(home, "project"), getenv: func(string) string { return "" }}
	for name, text := range files {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "HOME", home)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	im := &Import{project: m.project, out: m.project, lookup: func(name string) (string, bool) {
		value, ok := environment[name]
		return value, ok
	}}
	for _, file := range m.clientFiles() {
		_ = im.read(file)
	}
	im.assignNames()
	return im, im.Document()
}

func TestImport(t *testing.T) {
	t.Parallel()
	im, text := importFiles(t, importEnvironment, map[string]string{
		"project/.mcp.json":        `{"mcpServers": {"files": {"type": "stdio", "command": "npx", "args": ["-y", "x", "1.10", "${TOKEN}"], "env": {"A_TOKEN": "literal-secret", "N": "007"}}}}`,
		"project/.cursor/mcp.json": `{"mcpServers": {"Files": {"command": "npx", "args": ["other"]}, "run": {"command": "${workspaceFolder}/x", "cwd": "sub"}}}`,
		"project/.vscode/mcp.json": "// servers\n{\"servers\": {\"gh\": {\"type\": \"http\", \"url\": \"https://h/mcp\", \"headers\": " +
			"{\"Authorization\": \"Bearer ${input:github_token}\"}}, /* and */ },\n\"inputs\": [{\"id\": \"github_token\"}],}",
		".claude.json": `{"numStartups": 12345678901234567890, "mcpServers": {"files": {"env": {"N": "007", "A_TOKEN": "literal-secret"}, "args": ["-y", "x", "1.10", "${TOKEN}"], "command": "npx", "type": "stdio"}},
			"projects": {"HOME/project": {"mcpServers": {"local": {"command": "x", "envFile": ".env", "other": 1}}}, "HOME/else": {"mcpServers": {"elsewhere": {"command": "x"}}}}}`,
		".config/Claude/claude_desktop_config.json": `{"mcpServers": {"onecall": {"command": "/usr/bin/onecall", "args": ["serve"]}, "by npx": {"command": "npx", "args": ["-y", "onecall@1"]}, "off": {"command": "x", "disabled": true}, "off2": {"command": "x", "enabled": false},
			"bad": {"command": "x", "url": "https://h"}, "worse": 5, "fs": {"command": "y"}, "cmd": {"command": "${command:x}"}}}`,
		".config/Code/User/settings.json":              `{"editor.x": 1, "mcp": {"servers": {"weather": {"command": "w"}}}, }`,
		".codeium/windsurf/mcp_config.json":            `{"mcpServers": {"wind": {"serverUrl": "https://w/sse", "disabledTools": ["a"]}}}`,
		".config/Code - Insiders/User/mcp.json":        ``,
		".cursor/mcp.json":                             `{"mcpServers": `,
		".config/Code - Insiders/User/settings.json/x": ``,
	})
	c, faults := parseIn(importEnvironment, filepath.Join(im.out, "onecall.yaml"), string(text))
	if len(faults) > 0 || len(c.Warnings) > 0 {
		t.Fatalf("%v, %v\n%s", faults, c.Warnings, text)
	}
	var names []string
	for _, s := range c.MCPServers {
		names = append(names, s.Name)
	}
	if want := []string{"files", "Files-2", "run", "gh", "fs-2", "local", "weather", "wind"}; !slices.Equal(names, want) {
		t.Errorf("names %q\n%s", names, text)
	}
	first := c.MCPServers[0].Config
	if !slices.Equal(first.Args, []string{"-y", "x", "1.10", "tok-0123456789"}) || first.Env["N"] != "007" ||
		first.Env["A_TOKEN"] != "literal-secret" {
		t.Errorf("files: %+v", first)
	}
	if run := c.MCPServers[2].Config; *run.Command != filepath.Join(im.out, "x") || *run.Cwd != "sub" {
		t.Errorf("run: %s in %s", *run.Command, *run.Cwd)
	}
	if gh := c.MCPServers[3].Config; !gh.Off() || gh.Headers["Authorization"] != "Bearer ${GITHUB_TOKEN}" {
		t.Errorf("gh: %+v", gh)
	}
	if wind := c.MCPServers[7].Config; *wind.URL != "https://w/sse" || !slices.Equal(wind.ExcludeTools, []string{"a"}) {
		t.Errorf("wind: %+v", wind)
	}
	report := string(im.Report(text, "onecall.yaml"))
	for _, want := range []string{"files: left out: it is the same as that of Claude Code", "Files-2: taken over\n    renamed from Files",
		"onecall: left out: it is onecall itself", "by npx: left out: it is onecall itself",
		"off: left out: it is disabled", "off2: left out: it is disabled", "bad: left out: url: command and url exclude",
		"worse: left out: it is not an object", "cmd: left out: command: ${command:",
		"gh: taken over as disabled: not set is GITHUB_TOKEN", "VS Code asks for github_token", "envFile is left out", "other is left out",
		".cursor/mcp.json (Cursor): line 1 is not JSON", "settings.json (VS Code): it is a folder",
		"A_TOKEN: ****** # a secret in plain text", "# set GITHUB_TOKEN, then remove this line",
		"args: [\"-y\", \"x\", \"1.10\", \"${TOKEN}\"]"} {
		if !strings.Contains(report, want) {
			t.Errorf("the report lacks %q:\n%s", want, report)
		}
	}
	if strings.Contains(report, "literal-secret") || strings.Contains(report, importEnvironment["TOKEN"]) ||
		strings.Contains(report, "elsewhere") {
		t.Errorf("the report shows too much:\n%s", report)
	}
}

// TestOnecallItself: onecall is known by its command or the package that is run, and by no other argument.
func TestOnecallItself(t *testing.T) {
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
			t.Errorf("%s: %v", server, got)
		}
	}
}

// TestImportTwins: a type that follows from the other keys makes no difference, one that does not makes one.
func TestImportTwins(t *testing.T) {
	t.Parallel()
	im, text := importFiles(t, nil, map[string]string{
		"project/.mcp.json": `{"mcpServers": {"a": {"type": "stdio", "command": "x"}, "b": {"type": "streamable-http", "url": "https://h/mcp"}, "c": {"url": "https://h/mcp"}}}`,
		".cursor/mcp.json":  `{"mcpServers": {"a": {"command": "x", "type": "local"}, "b": {"url": "https://h/mcp"}, "c": {"url": "https://h/mcp", "type": "sse"}}}`,
		".claude.json":      `{"mcpServers": {"a": {"command": "x"}}}`,
	})
	var names []string
	for _, srv := range im.servers {
		if srv.skip == "" {
			names = append(names, srv.name)
		}
	}
	if want := []string{"a", "b", "c", "c-2"}; !slices.Equal(names, want) {
		t.Errorf("names %q\n%s", names, text)
	}
}

// TestImportShown: the file is shown without secrets, with its variables and comments as they are written.
func TestImportShown(t *testing.T) {
	t.Parallel()
	im, text := importFiles(t, map[string]string{"MY_TOKEN": "filled-in-secret"}, map[string]string{
		"project/.mcp.json": `{"mcpServers": {
			"notion": {"command": "npx", "args": ["-y", "n"], "env": {"OPENAPI_MCP_HEADERS": "{\"Authorization\": \"Bearer qq-hidden\", \"V\": \"shown\"}"}},
			"db": {"command": "x", "args": ["-k", "qq-hidden"], "env": {"DATABASE_URL": "Server=h;Password=qq-hidden;", "A_TOKEN": "${MY_TOKEN}", "B_TOKEN": "Bearer ${env:MY_TOKEN}"}},
			"zap": {"type": "http", "url": "https://mcp.zapier.com/api/mcp/s/qqhidden0123456789abcdef/mcp", "headers": {"X": "${UNSET}", "Authorization": "Bearer ${input:my_token}"}}}}`,
	})
	report := string(im.Report(text, "onecall.yaml"))
	if strings.Contains(report, "hidden") || strings.Contains(report, "filled-in") {
		t.Errorf("a secret is shown:\n%s", report)
	}
	for _, want := range []string{"shown", "A_TOKEN: \"${MY_TOKEN}\"", "*${env:MY_TOKEN}\"", "X: \"${UNSET}\"", "*${MY_TOKEN}\"",
		"# Claude Code asks for my_token: onecall reads it from the variable MY_TOKEN", "# set UNSET, then remove this line",
		"https://mcp.zapier.com/api/mcp/s/****"} {
		if !strings.Contains(report, want) {
			t.Errorf("the report lacks %q:\n%s", want, report)
		}
	}
}

func TestImportNothing(t *testing.T) {
	t.Parallel()
	im, text := importFiles(t, nil, nil)
	if c, faults := parseIn(nil, "onecall.yaml", string(text)); len(faults) > 0 || len(c.MCPServers) > 0 {
		t.Errorf("%v", faults)
	}
	if report := string(im.Report(text, "onecall.yaml")); !strings.Contains(report, "No MCP servers") ||
		!strings.Contains(report, "claude_desktop_config.json") {
		t.Error(report)
	}
	// The example is one: without its comment signs it loads.
	example := regexpReplace(exampleFile)
	if c, faults := parseIn(map[string]string{"MCP_TOKEN": "x"}, "onecall.yaml", example); len(faults) > 0 || len(c.MCPServers) != 2 ||
		len(c.OpenAPI) != 1 {
		t.Errorf("%v\n%s", faults, example)
	}
}

// TestImportElsewhere: where the file is written to another folder, what is relative to the project keeps its meaning.
func TestImportElsewhere(t *testing.T) {
	t.Parallel()
	project, out := t.TempDir(), t.TempDir()
	im := &Import{project: project, out: out, lookup: func(string) (string, bool) { return "", false }}
	path := filepath.Join(project, "mcp.json")
	if err := os.WriteFile(path, []byte(`{"mcpServers": {"a": {"command": "${workspaceFolder}/x", "cwd": "sub"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := im.read(clientFile{"Cursor", path, []section{mcpServers}, project}); err != nil {
		t.Fatal(err)
	}
	im.assignNames()
	c, faults := parseIn(nil, filepath.Join(out, "onecall.yaml"), string(im.Document()))
	if len(faults) > 0 || *c.MCPServers[0].Config.Command != project+"/x" || *c.MCPServers[0].Config.Cwd != filepath.Join(project, "sub") {
		t.Errorf("%v\n%s", faults, im.Document())
	}
}

// TestImportRoundTrip: whatever texts a client's file holds, the written file gives them back.
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
		im.add(&clientFile{client: "c", path: "p"}, gjson.Parse(`{`+string(gjson.AppendJSONString(nil, name))+`:`+object+`}`), nil)
		im.assignNames()
		c, faults := parseIn(nil, "/x/onecall.yaml", string(im.Document()))
		if len(faults) > 0 {
			rt.Fatalf("%s\n%s\n%v", object, im.Document(), faults)
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
			rt.Fatalf("%s\n%s\ngives %+v", object, im.Document(), got)
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
			t.Errorf("%s\n%v", written, faults)
		}
		im.Report(written, "onecall.yaml")
	})
}
