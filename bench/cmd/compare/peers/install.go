package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/install"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

// The package of ToolHive's vMCP and its version. package-lock.json has the versions of the Node.js packages.
const vmcpPackage, vmcpVersion = "github.com/stacklok/toolhive/cmd/vmcp", "v0.47.0"

// setup says where programs are installed, and where they write.
type setup struct {
	*report.Options
	temp string // a folder of this run
}

func newSetup(o *report.Options) (*setup, error) {
	temp, err := os.MkdirTemp("", "onecall-compare")
	return &setup{Options: o, temp: temp}, err
}

func (s *setup) close() { _ = os.RemoveAll(s.temp) }

// bin returns the path of an installed program.
func (s *setup) bin(name string) string {
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return filepath.Join(s.Tools, "bin", name)
}

// build builds a program of this repository: pkg relative to folder, which is relative to the repository's root.
func (s *setup) build(ctx context.Context, name, folder, pkg string) error {
	return install.Build(ctx, filepath.Join(s.Root, folder), pkg, s.bin(name))
}

var errSlow = errors.New("not in the short form: it takes minutes to install")

// installVMCP installs ToolHive's vMCP, which takes minutes. The short form uses it only if it is already installed.
func (s *setup) installVMCP(ctx context.Context) error {
	if _, err := os.Stat(s.vmcp()); err == nil {
		return nil
	}
	if s.Short {
		return errSlow
	}
	s.Log("installing %s@%s, which takes minutes", vmcpPackage, vmcpVersion)
	if err := install.Go(ctx, filepath.Join(s.Tools, "bin"), vmcpPackage+"@"+vmcpVersion); err != nil {
		return err
	}
	return os.Rename(s.bin("vmcp"), s.vmcp())
}

// vmcp returns the path of vMCP. Its name contains the version, so that no other version is used.
func (s *setup) vmcp() string { return s.bin("vmcp-" + vmcpVersion) }

// nodeFolder returns the folder in which the Node.js programs and their packages are installed.
func (s *setup) nodeFolder() string { return filepath.Join(s.Tools, "node") }

// installNode copies the Node.js programs, and installs their packages unless the same ones are installed.
func (s *setup) installNode(ctx context.Context) error {
	if err := os.MkdirAll(s.nodeFolder(), 0o755); err != nil {
		return err
	}
	programs, err := filepath.Glob(filepath.Join(s.Root, "bench/cmd/compare/peers/node/*"))
	if err != nil {
		return err
	}
	var wanted []byte
	for _, p := range programs {
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if filepath.Base(p) == "package-lock.json" {
			wanted = text
		}
		if err := os.WriteFile(filepath.Join(s.nodeFolder(), filepath.Base(p)), text, 0o644); err != nil {
			return err
		}
	}
	installed := filepath.Join(s.nodeFolder(), "installed.json")
	if before, err := os.ReadFile(installed); err == nil && bytes.Equal(before, wanted) {
		return nil
	}
	s.Log("installing the Node.js peers")
	if err := install.NPM(ctx, s.nodeFolder(), "ci"); err != nil {
		return err
	}
	return os.WriteFile(installed, wanted, 0o644)
}

// nodeBinary returns the path of the Node.js that npm has installed, else the system's.
func (s *setup) nodeBinary() string {
	if local, err := filepath.Glob(filepath.Join(s.nodeFolder(), "node_modules/node-*/bin/node")); err == nil && len(local) > 0 {
		return local[0]
	}
	return "node"
}

// node returns the command that runs one of the Node.js programs.
func (s *setup) node(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(s.nodeBinary(), append([]string{filepath.Join(s.nodeFolder(), program)}, args...)...)
	cmd.Dir = s.nodeFolder()
	cmd.Env = append(os.Environ(), "TMPDIR="+s.temp) // temporary folders that the programs make are removed with s.temp
	return cmd
}

// nodeRelease returns the version of Node.js; "none" if there is none.
func (s *setup) nodeRelease() string {
	out, err := exec.Command(s.nodeBinary(), "--version").Output()
	if err != nil {
		return "none"
	}
	return strings.TrimSpace(string(out))
}

// nodeVersion returns the version of an installed npm package; "none" if it is not installed.
func (s *setup) nodeVersion(pkg string) string {
	text, err := os.ReadFile(filepath.Join(s.nodeFolder(), "node_modules", pkg, "package.json"))
	if err != nil {
		return "none"
	}
	var manifest struct{ Version string }
	_ = json.Unmarshal(text, &manifest) // it is valid: npm has read it
	return manifest.Version
}
