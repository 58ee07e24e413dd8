// Package install builds and installs the programs that the comparison starts.
package install

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

// limit bounds each installation.
const limit = 30 * time.Minute

// Build builds a program of this repository: pkg is relative to folder, to is the path of the program.
func Build(ctx context.Context, folder, pkg, to string) error {
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", to, pkg)
	cmd.Dir = folder
	_, err := proc.Run(ctx, cmd, limit)
	return err
}

// Go installs a program, named as package@version, into the folder bin.
func Go(ctx context.Context, bin, program string) error {
	cmd := exec.Command("go", "install", program)
	cmd.Dir = os.TempDir()
	cmd.Env = append(os.Environ(), "GOBIN="+bin, "GOFLAGS=")
	_, err := proc.Run(ctx, cmd, limit)
	return err
}

// NPM runs an npm command such as ci in a folder. Install scripts do not run: no package needs one.
func NPM(ctx context.Context, folder, command string) error {
	cmd := exec.Command("npm", command, "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error")
	cmd.Dir = folder
	if _, err := proc.Run(ctx, cmd, limit); err != nil {
		return fmt.Errorf("npm %s: %w", command, err)
	}
	return nil
}

// untested are the npm packages that the comparison needs beside those of the repository's tests, with their versions.
var untested = map[string]string{
	"@modelcontextprotocol/server-github": "2025.4.8", "@notionhq/notion-mcp-server": "2.5.2", "@playwright/mcp": "0.0.83",
	"chrome-devtools-mcp": "1.11.0",
}

// testsVariable names the environment variable with a folder in which the packages of the tests are installed.
const testsVariable = "ONECALL_TEST_NPM"

// Packages are npm packages in the versions of the repository's tests.
type Packages struct {
	folder  string // in which they are installed; that of testsVariable is looked into, too
	section *report.Section
	project project
}

// project is a package.json.
type project struct {
	Private      bool              `json:"private"`
	Dependencies map[string]string `json:"dependencies"`
	Overrides    map[string]string `json:"overrides,omitempty"`
}

// NewPackages returns packages whose versions are noted in s when they are used.
func NewPackages(o *report.Options, s *report.Section) (*Packages, error) {
	p := &Packages{folder: filepath.Join(o.Tools, "tables"), section: s}
	text, err := os.ReadFile(filepath.Join(o.Root, "testdata/npm/package.json"))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &p.project); err != nil {
		return nil, err
	}
	maps.Copy(p.project.Dependencies, untested)
	return p, nil
}

// Install installs those of the packages that are missing, beside those that were installed before.
func (p *Packages) Install(ctx context.Context, names ...string) error {
	all, path := project{}, filepath.Join(p.folder, "package.json")
	if text, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(text, &all); err != nil {
			return fmt.Errorf("%s: %w: remove it", path, err)
		}
	}
	wanted := project{true, map[string]string{}, p.project.Overrides}
	maps.Copy(wanted.Dependencies, all.Dependencies)
	missing := false
	for _, name := range names {
		if _, err := p.Folder(name); err != nil {
			wanted.Dependencies[name], missing = p.project.Dependencies[name], true
		}
	}
	if !missing {
		return nil
	}
	text, err := json.Marshal(wanted)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(p.folder, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return err
	}
	return NPM(ctx, p.folder, "install")
}

// Root returns the folder in which all packages of the tests are looked for: that of testsVariable, if it is set.
func (p *Packages) Root() string {
	if folder := os.Getenv(testsVariable); folder != "" {
		return folder
	}
	return p.folder
}

// Folder returns the folder of a package, if it is installed in its version.
func (p *Packages) Folder(name string) (string, error) {
	for _, root := range []string{p.folder, p.Root()} {
		folder := filepath.Join(root, "node_modules", filepath.FromSlash(name))
		var manifest struct{ Version string }
		text, err := os.ReadFile(filepath.Join(folder, "package.json"))
		if err == nil && json.Unmarshal(text, &manifest) == nil && manifest.Version == p.project.Dependencies[name] {
			p.section.Versions[name] = manifest.Version
			return folder, nil
		}
	}
	return "", fmt.Errorf("%s is not installed", name)
}
