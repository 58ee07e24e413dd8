package mcp

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// newHome makes folders below a home directory, each with a program.
func newHome(t *testing.T, program string, folders ...string) (home string) {
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
		t.Skip("a PATH of Windows is not changed")
	}
	home := newHome(t, "npx", ".local/bin", ".nvm/versions/node/v9.11.2/bin", ".nvm/versions/node/v20.1.0/bin",
		".nvm/versions/node/system/bin")
	local, newest := filepath.Join(home, ".local/bin"), filepath.Join(home, ".nvm/versions/node/v20.1.0/bin")
	complete := completePath("/bin", "darwin", home)
	folders := filepath.SplitList(complete)
	if folders[0] != "/bin" || !slices.Contains(folders, local) || !slices.Contains(folders, newest) {
		t.Errorf("the PATH is %s, want /bin first, %s and %s", complete, local, newest)
	}
	if strings.Contains(complete, "v9.11.2") || strings.Contains(complete, filepath.Join(home, "go/bin")) {
		t.Errorf("the PATH has an old version, or a folder that does not exist: %s", complete)
	}
	if again := completePath(complete, "darwin", home); again != complete {
		t.Errorf("a second completion changes the PATH: %s, want %s", again, complete)
	}
	if got := completePath(`C:\bin`, "windows", home); got != `C:\bin` {
		t.Errorf("on Windows: got %s, want it unchanged", got)
	}
	if got := completePath("/bin", "linux", ""); strings.Contains(got, "~") {
		t.Errorf("without a home folder: got %s, want no ~", got)
	}
	if file := lookUp("npx", completePath(t.TempDir(), "linux", home), ""); file == "" {
		t.Error("npx was not found")
	}
}

// TestProgramOfServer: a server is started by its full path, and finds the programs next to it.
func TestProgramOfServer(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("programs have other names on Windows")
	}
	folder := filepath.Join(newHome(t, "my-server", "bin"), "bin")
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
		t.Errorf("the PATH lacks the program's folder: %s", path)
	}
	options := &Options{Command: "my-server", Env: map[string]string{"PATH": folder}}
	if cmd := command(options); cmd.Path != program || pathOf(options) != folder {
		t.Errorf("got program %s with PATH %s, want %s with %s", cmd.Path, pathOf(options), program, folder)
	}
	options.Command = "sh" // in onecall's PATH
	if cmd := command(options); !errors.Is(cmd.Err, exec.ErrNotFound) {
		t.Errorf("a program that the server's PATH lacks: got %s, error %v, want not found", cmd.Path, cmd.Err)
	}
}
