package harness

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
)

// installLimit bounds each installation.
const installLimit = 30 * time.Minute

// Build builds a program of this repository, from a package relative to a folder relative to its root, and returns the program's path.
func (b *Bench) Build(ctx context.Context, name, folder, pkg string) string {
	path := filepath.Join(b.Tools, "bin", name)
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", path, pkg)
	cmd.Dir = filepath.Join(b.Root, folder)
	Must(proc.Run(ctx, cmd, installLimit))
	return path
}

// Onecall builds onecall as a user would, once, and returns its path.
func (b *Bench) Onecall(ctx context.Context) string {
	if b.onecall == "" {
		b.onecall = b.Build(ctx, "onecall", ".", "./cmd/onecall")
	}
	return b.onecall
}

// goPrograms are installed by Go, which takes minutes: package and version.
var goPrograms = map[string][2]string{
	"vmcp":              {"github.com/stacklok/toolhive/cmd/vmcp", "v0.47.0"},
	"everything-server": {"github.com/modelcontextprotocol/go-sdk/conformance/everything-server", "v1.8.0"},
	"temporal":          {"github.com/temporalio/cli/cmd/temporal", "v1.5.1"},
	"mcp-grafana":       {"github.com/grafana/mcp-grafana/cmd/mcp-grafana", "v1.6.3"},
}

// Go returns the path of a Go program: that of the tests (ONECALL_TEST_BIN), or one that is installed now or was before. The short form
// installs none.
func (b *Bench) Go(ctx context.Context, name string) string {
	pkg, version := goPrograms[name][0], goPrograms[name][1]
	bin := filepath.Join(b.Tools, "bin", version)
	path := filepath.Join(bin, name)
	if tests := os.Getenv("ONECALL_TEST_BIN"); tests != "" && Exists(filepath.Join(tests, name)) {
		path = filepath.Join(tests, name)
	}
	if !Exists(path) && !b.Short {
		b.Log("go installs %s", name)
		cmd := exec.Command("go", "install", pkg+"@"+version)
		cmd.Dir, cmd.Env = os.TempDir(), append(os.Environ(), "GOBIN="+bin, "GOFLAGS=")
		_, err := proc.Run(ctx, cmd, installLimit)
		CheckHere(err)
	}
	if !Exists(path) {
		Check(b.notInstalled(name))
	}
	b.Versions[pkg] = version
	return path
}

// Exists reports whether there is a file or folder.
func Exists(path string) bool { _, err := os.Stat(path); return err == nil }

func (b *Bench) notInstalled(name string) error {
	if b.Short {
		return fmt.Errorf("%w: %s is not installed, and the short form installs only what is small", ErrNotHere, name)
	}
	return fmt.Errorf("%w: %s could not be installed", ErrNotHere, name)
}

// untested are the npm packages that the comparison needs beside those of the repository's tests, with their versions.
var untested = map[string]string{
	"@modelcontextprotocol/server-github": "2025.4.8", "@notionhq/notion-mcp-server": "2.5.2", "@playwright/mcp": "0.0.83",
	"chrome-devtools-mcp": "1.11.0",
}

// small are the npm packages that the short form installs.
var small = []string{
	"@modelcontextprotocol/server-everything", "@modelcontextprotocol/server-filesystem", "@modelcontextprotocol/server-memory",
	"@modelcontextprotocol/server-sequential-thinking", "@octokit/openapi",
}

// manifest is a package.json.
type manifest struct {
	Private      bool              `json:"private"`
	Version      string            `json:"version,omitempty"`
	Dependencies map[string]string `json:"dependencies"`
	Overrides    map[string]string `json:"overrides,omitempty"`
}

func readManifest(folder string) (m manifest, err error) {
	text, err := os.ReadFile(filepath.Join(folder, "package.json"))
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	return m, err
}

// known returns the npm packages of the tests and of the comparison.
func (b *Bench) known() manifest {
	m := Must(readManifest(filepath.Join(b.Root, "testdata/npm")))
	maps.Copy(m.Dependencies, untested)
	return m
}

// packages is the folder in which this program installs npm packages.
func (b *Bench) packages() string { return filepath.Join(b.Tools, "npm") }

// PackagesRoot returns the folder in which all packages of the tests are looked for: the one in which the tests have them, if there is one.
func (b *Bench) PackagesRoot() string { return cmp.Or(os.Getenv("ONECALL_TEST_NPM"), b.packages()) }

// find returns the folder of an npm package, in the version of the repository's tests; "" if it is not installed.
func (b *Bench) find(name string) string {
	version := b.known().Dependencies[name]
	for _, root := range []string{b.packages(), b.PackagesRoot()} {
		folder := filepath.Join(root, "node_modules", filepath.FromSlash(name))
		if m, err := readManifest(folder); err == nil && m.Version == version {
			b.Versions[name] = version
			return folder
		}
	}
	return ""
}

// Packages installs those npm packages that are missing, beside those that were installed before; in the short form only small ones. If
// that fails, the section has a comment, and Package says what is missing.
func (b *Bench) Packages(ctx context.Context, names ...string) {
	known := b.known()
	wanted := manifest{Private: true, Dependencies: map[string]string{}, Overrides: known.Overrides}
	before, _ := readManifest(b.packages()) // empty if nothing was installed
	maps.Copy(wanted.Dependencies, before.Dependencies)
	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return b.find(name) != "" || b.Short && !slices.Contains(small, name)
	})
	if len(missing) == 0 {
		return
	}
	for _, name := range missing {
		wanted.Dependencies[name] = known.Dependencies[name]
	}
	WriteFile(filepath.Join(b.packages(), "package.json"), Must(json.Marshal(wanted)))
	if err := npm(ctx, b.packages(), "install"); err != nil {
		b.Comment("%s", OneLine(err))
	}
}

// Package returns the folder of an npm package.
func (b *Bench) Package(name string) string {
	folder := b.find(name)
	if folder == "" {
		Check(b.notInstalled(name))
	}
	return folder
}

// NPM returns the folder of an npm package that is no part of the tests: what the registry has as this version, installed by itself. The
// short form installs none.
func (b *Bench) NPM(ctx context.Context, name, version string) string {
	root := filepath.Join(b.Tools, "npm-"+name)
	folder := filepath.Join(root, "node_modules", filepath.FromSlash(name))
	here := func() bool {
		m, err := readManifest(folder)
		return err == nil && m.Version == version
	}
	if !here() && !b.Short {
		b.Log("npm installs %s", name)
		WriteFile(filepath.Join(root, "package.json"), Must(json.Marshal(manifest{Private: true, Dependencies: map[string]string{name: version}})))
		CheckHere(npm(ctx, root, "install"))
	}
	if !here() {
		Check(b.notInstalled(name))
	}
	b.Versions[name] = version
	return folder
}

// npm runs an npm command such as ci in a folder. Install scripts do not run: no package needs one.
func npm(ctx context.Context, folder, command string) error {
	cmd := exec.Command("npm", command, "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error")
	cmd.Dir = folder
	_, err := proc.Run(ctx, cmd, installLimit)
	return err
}

// WriteFile writes a file and the folder that it is in.
func WriteFile(path string, content []byte) {
	Check(os.MkdirAll(filepath.Dir(path), 0o755))
	Check(os.WriteFile(path, content, 0o644))
}

// Node is a folder of Node.js programs with the packages of its package-lock.json.
type Node struct {
	bench  *Bench
	folder string
}

// Node copies a folder of the repository to where its packages are installed, unless the same ones are.
func (b *Bench) Node(ctx context.Context, folder string) *Node {
	n := &Node{b, filepath.Join(b.Tools, "node")}
	for _, file := range Must(filepath.Glob(filepath.Join(b.Root, folder, "*"))) {
		WriteFile(filepath.Join(n.folder, filepath.Base(file)), Must(os.ReadFile(file)))
	}
	lock := Must(os.ReadFile(filepath.Join(n.folder, "package-lock.json")))
	installed := filepath.Join(n.folder, "installed.json")
	if before, err := os.ReadFile(installed); err == nil && bytes.Equal(before, lock) {
		return n
	}
	b.Log("installing the Node.js peers")
	CheckHere(npm(ctx, n.folder, "ci"))
	WriteFile(installed, lock)
	return n
}

// Binary returns the path of the Node.js that npm has installed, else the system's.
func (n *Node) Binary() string {
	return append(Must(filepath.Glob(filepath.Join(n.folder, "node_modules/node-*/bin/node"))), "node")[0]
}

// Command returns the command that runs one of the programs. The temporary folders that it makes are removed with those of the run.
func (n *Node) Command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(n.Binary(), append([]string{filepath.Join(n.folder, program)}, args...)...)
	cmd.Dir, cmd.Env = n.folder, append(os.Environ(), "TMPDIR="+n.bench.Temp)
	return cmd
}

// Note notes the versions of Node.js and of packages in the section.
func (n *Node) Note(packages ...string) {
	n.bench.Versions["Node.js"] = Release(n.Binary())
	for _, pkg := range packages {
		n.bench.Versions[pkg] = Must(readManifest(filepath.Join(n.folder, "node_modules", pkg))).Version
	}
}

// Release returns the version of a Node.js; "none" if there is none.
func Release(binary string) string {
	out, _ := exec.Command(binary, "--version").Output()
	return cmp.Or(strings.TrimSpace(string(out)), "none")
}
