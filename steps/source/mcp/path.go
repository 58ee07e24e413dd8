package mcp

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// programFolders are the folders in which package managers install a user's programs. The PATH of programs that are started from a desktop
// lacks them. ~ is the home directory; * matches versions, of which the newest counts.
var programFolders = strings.Fields(`
	/opt/homebrew/bin /usr/local/bin /opt/local/bin /home/linuxbrew/.linuxbrew/bin /snap/bin
	~/.local/bin ~/bin ~/go/bin ~/.cargo/bin ~/.bun/bin ~/.deno/bin
	~/.volta/bin ~/.asdf/shims ~/.local/share/mise/shims ~/.local/share/fnm/aliases/default/bin ~/.nvm/versions/node/*/bin
	~/.nix-profile/bin /nix/var/nix/profiles/default/bin /run/current-system/sw/bin`)

// completePath appends the existing program folders that path lacks. On Windows desktop programs already have the user's PATH.
func completePath(path, system, home string) string {
	if system == "windows" {
		return path
	}
	for _, folder := range programFolders {
		if strings.HasPrefix(folder, "~") {
			if home == "" {
				continue
			}
			folder = home + folder[1:]
		}
		if folder = newest(folder); folder == "" {
			continue
		}
		if info, err := os.Stat(folder); err == nil && info.IsDir() {
			path = withFolder(path, folder)
		}
	}
	return path
}

// withFolder appends a folder to a PATH unless it is there.
func withFolder(path, folder string) string {
	folders := filepath.SplitList(path)
	if slices.Contains(folders, folder) {
		return path
	}
	return strings.Join(append(folders, folder), string(filepath.ListSeparator))
}

// newest returns the folder of the newest version that * matches; "": none.
func newest(folder string) string {
	before, after, pattern := strings.Cut(folder, "*")
	if !pattern {
		return folder
	}
	versions, _ := os.ReadDir(before) // a missing folder has none
	if len(versions) == 0 {
		return ""
	}
	number := func(e fs.DirEntry) (n [3]int) {
		_, _ = fmt.Sscanf(e.Name(), "v%d.%d.%d", &n[0], &n[1], &n[2]) // other names count as the oldest
		return n
	}
	last := slices.MaxFunc(versions, func(a, b fs.DirEntry) int {
		first, second := number(a), number(b)
		return slices.Compare(first[:], second[:])
	})
	return before + last.Name() + after
}

// lookUp finds a program in the folders of a PATH; "": not found. A command with a path is relative to dir.
func lookUp(command, path, dir string) string {
	folders := filepath.SplitList(path)
	if filepath.Base(command) != command {
		folders = []string{dir}
		if filepath.IsAbs(command) {
			folders = []string{""}
		}
	} else { // an empty entry would mean the working directory
		folders = slices.DeleteFunc(folders, func(entry string) bool { return entry == "" })
	}
	for _, folder := range folders {
		whole, err := filepath.Abs(filepath.Join(folder, command))
		if err != nil {
			continue
		}
		if program, err := exec.LookPath(whole); err == nil {
			return program
		}
	}
	return ""
}

// DesktopPath returns the PATH of programs that are started from a desktop, not from a shell.
func DesktopPath() string {
	switch runtime.GOOS {
	case "windows":
		return os.Getenv("PATH")
	case "darwin":
		return "/usr/bin:/bin:/usr/sbin:/sbin"
	}
	return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}

// Program is the location of a server's program.
type Program struct {
	Path  string // "": not found
	Added bool   // found in a folder that completePath appended
}

// FindProgram looks up a server's program as a start would if onecall's PATH were path. It uses the options Command, Env and Dir.
func FindProgram(o *Options, path string) Program {
	if configured, ok := o.Env["PATH"]; ok {
		return Program{Path: lookUp(o.Command, configured, o.Dir)}
	}
	if program := lookUp(o.Command, path, o.Dir); program != "" {
		return Program{Path: program}
	}
	program := lookUp(o.Command, completePath(path, runtime.GOOS, os.Getenv("HOME")), o.Dir)
	return Program{program, program != ""}
}
