package clients

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestImport reads the homes of testdata/clients/imports, each with an environment; OUT is the folder that the configuration is written
// to, if it is not the project. In addition to the files of the home, a transcript holds the configuration, the report that a person is
// shown, and the servers that the configuration has when it is read.
func TestImport(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../testdata/clients/imports/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no test files: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			l := openLayout(t, path)
			environment := map[string]string{}
			for line := range strings.Lines(string(l.archive.Files[0].Data)) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
				environment[name] = value
			}
			im := &Import{project: l.machine.project, out: l.machine.project, lookup: func(name string) (string, bool) {
				value, ok := environment[name]
				return value, ok
			}}
			if out := environment["OUT"]; out != "" {
				im.out = l.homePath(out)
			}
			im.readAll(l.machine)
			im.assignNames()
			text := im.Document()
			c, faults := parseIn(environment, filepath.Join(im.out, "onecall.yaml"), string(text))
			if len(faults) > 0 || len(c.Warnings) > 0 {
				t.Fatalf("got faults %v and warnings %v of\n%s\nwant none", faults, c.Warnings, text)
			}
			var servers strings.Builder
			for _, s := range c.MCPServers {
				one := s.Config
				fmt.Fprintf(&servers, "%s: %s, off %t, args %q, env %q, headers %q, excluded %q\n", s.Name, *firstSet(one.Command, one.URL), one.Off(),
					one.Args, one.Env, one.Headers, one.ExcludeTools)
				if one.Cwd != nil {
					fmt.Fprintf(&servers, "  in %s\n", *one.Cwd)
				}
			}
			report := string(im.Report(text, "onecall.yaml"))
			for _, word := range []string{"literal-secret", "tok-0123456789", "hidden", "filled-in", "elsewhere:"} {
				if strings.Contains(report, word) {
					t.Errorf("the report shows %s:\n%s", word, report)
				}
			}
			l.golden(t, "init/report", report)
			l.golden(t, "init/onecall.yaml", string(text))
			l.golden(t, "init/servers", servers.String())
		})
	}
}

func firstSet(a, b *string) *string {
	if a != nil {
		return a
	}
	return b
}

// TestExampleLoads: the commented example in a new configuration is a valid configuration.
func TestExampleLoads(t *testing.T) {
	t.Parallel()
	var example strings.Builder
	for line := range strings.Lines(exampleFile) {
		example.WriteString(strings.TrimPrefix(line, "# "))
	}
	if c, faults := parseIn(map[string]string{"MCP_TOKEN": "x"}, "onecall.yaml", example.String()); len(faults) > 0 || len(c.MCPServers) != 2 ||
		len(c.OpenAPI) != 1 {
		t.Errorf("got faults %v of\n%s\nwant 2 servers and an OpenAPI source", faults, example.String())
	}
}
