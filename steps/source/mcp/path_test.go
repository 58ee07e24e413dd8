package mcp

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// inHome makes folders below a home directory, each with a program.
func inHome(t *testing.T, program string, folders ...string) (home string) {
	t.Helper()
	home = t.TempDir()
	for _, folder := range folders {
		if err := os.MkdirAll(filepath.Join(home, folder), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, folder, program), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return home
}

func TestCompletePath(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a PATH of Windows stays as it is")
	}
	home := inHome(t, "npx", ".local/bin", ".nvm/versions/node/v9.11.2/bin", ".nvm/versions/node/v20.1.0/bin", ".nvm/versions/node/system/bin")
	local, newest := filepath.Join(home, ".local/bin"), filepath.Join(home, ".nvm/versions/node/v20.1.0/bin")
	complete := completePath("/bin", "darwin", home)
	folders := filepath.SplitList(complete)
	if folders[0] != "/bin" || !slices.Contains(folders, local) || !slices.Contains(folders, newest) {
		t.Errorf("%s", complete)
	}
	if strings.Contains(complete, "v9.11.2") || strings.Contains(complete, filepath.Join(home, "go/bin")) {
		t.Errorf("an old version, or a folder that is not there: %s", complete)
	}
	if again := completePath(complete, "darwin", home); again != complete {
		t.Errorf("completed again it is %s", again)
	}
	if got := completePath(`C:\bin`, "windows", home); got != `C:\bin` {
		t.Errorf("on Windows: %s", got)
	}
	if got := completePath("/bin", "linux", ""); strings.Contains(got, "~") {
		t.Errorf("without a home: %s", got)
	}
	if file := lookUp("npx", completePath(t.TempDir(), "linux", home), ""); file == "" {
		t.Error("npx is not found")
	}
}

// TestProgramOfServer: a server is started by its full path, and finds the programs next to it.
func TestProgramOfServer(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("programs have other names there")
	}
	folder := filepath.Join(inHome(t, "my-server", "bin"), "bin")
	program := filepath.Join(folder, "my-server")
	pathOf := func(o *Options) string {
		for _, pair := range command(o).Env {
			if path, ok := strings.CutPrefix(pair, "PATH="); ok {
				return path
			}
		}
		return ""
	}
	if path := pathOf(&Options{Command: program}); !slices.Contains(filepath.SplitList(path), folder) {
		t.Errorf("what stands beside the program is not found: %s", path)
	}
	options := &Options{Command: "my-server", Env: map[string]string{"PATH": folder}}
	if cmd := command(options); cmd.Path != program || pathOf(options) != folder {
		t.Errorf("%s with the PATH %s", cmd.Path, pathOf(options))
	}
}
