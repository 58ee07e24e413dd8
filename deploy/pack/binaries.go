package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/onecall-mcp/onecall/internal/cli"
)

// artifact is an entry of artifacts.json, which goreleaser writes to its folder. Artifacts of the type "Binary" are programs.
type artifact struct {
	Type   string `json:"type"`
	Path   string `json:"path"` // from the repository's root
	GOOS   string `json:"goos"`
	GOARCH string `json:"goarch"` // "all" for a universal binary
}

// distribution describes what goreleaser has built, or the build for this machine.
type distribution struct {
	folder    string
	version   string // without a leading v
	artifacts []artifact
}

const (
	binary        = "Binary"
	artifactsFile = "artifacts.json"
	metadataFile  = "metadata.json"
)

type metadata struct {
	Version string `json:"version"`
}

// readDistribution reads what goreleaser, or the command build, has written to a folder.
func readDistribution(folder string) (distribution, error) {
	d := distribution{folder: folder}
	var meta metadata
	if err := readJSON(filepath.Join(folder, metadataFile), &meta); err != nil {
		return d, err
	}
	if meta.Version == "" {
		return d, fmt.Errorf("%s has no version", filepath.Join(folder, metadataFile))
	}
	d.version = meta.Version
	return d, readJSON(filepath.Join(folder, artifactsFile), &d.artifacts)
}

// program returns the path of the program for a system and an architecture, which may be "all". ok reports whether there is one.
func (d distribution) program(goos, goarch string) (path string, ok bool) {
	for _, a := range d.artifacts {
		if a.Type == binary && a.GOOS == goos && a.GOARCH == goarch {
			return a.Path, true
		}
	}
	return "", false
}

// build builds onecall for this machine, into a folder with the same layout as goreleaser's.
func build(folder string) error {
	program := filepath.Join(folder, "onecall"+extension(runtime.GOOS))
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "./cmd/onecall")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build: %w", err)
	}
	if err := writeJSON(filepath.Join(folder, metadataFile), metadata{cli.Release}); err != nil {
		return err
	}
	return writeJSON(filepath.Join(folder, artifactsFile), []artifact{{binary, program, runtime.GOOS, runtime.GOARCH}})
}

func extension(goos string) string {
	if goos == "windows" {
		return ".exe"
	}
	return ""
}
