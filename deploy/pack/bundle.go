package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// bundlePrograms lists the programs of the MCP bundle. A host chooses only by operating system: the program for macOS is universal, the one
// for Windows also runs on arm64, and on Linux a shell script chooses (mcpb/onecall).
var bundlePrograms = []struct{ goos, goarch, name string }{
	{"darwin", "all", "onecall-darwin"},
	{"linux", "amd64", "onecall-linux-amd64"},
	{"linux", "arm64", "onecall-linux-arm64"},
	{"windows", "amd64", "onecall.exe"},
}

// bundle writes the folder that mcpb packs, DIST/mcpb, with all programs that were built.
func bundle(folder string) error {
	dist, err := readDistribution(folder)
	if err != nil {
		return err
	}
	out := filepath.Join(folder, "mcpb")
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	programs := 0
	for _, p := range bundlePrograms {
		program, ok := dist.program(p.goos, p.goarch)
		if !ok {
			continue
		}
		if err := copyFile(filepath.Join(out, "server", p.name), program, executable); err != nil {
			return err
		}
		programs++
	}
	if programs == 0 {
		return fmt.Errorf("%s lists no program for a bundle", filepath.Join(folder, artifactsFile))
	}
	if err := write(filepath.Join(out, "server", "onecall"), dist.template("mcpb/onecall"), executable); err != nil {
		return err
	}
	if err := copyFile(filepath.Join(out, "LICENSE"), "LICENSE", plain); err != nil {
		return err
	}
	return write(filepath.Join(out, "manifest.json"), dist.template("mcpb/manifest.json"), plain)
}
