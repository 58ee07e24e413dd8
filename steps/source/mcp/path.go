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

// programFolders are where package managers put a user's programs. A program that is started from a desktop has a PATH without them.
// ~ is the user's folder; of what a * matches, the newest version counts.
var programFolders = strings.Fields(`
	/opt/homebrew/bin /usr/local/bin /opt/local/bin /home/linuxbrew/.linuxbrew/bin /snap/bin
	~/.local/bin ~/bin ~/go/bin ~/.cargo/bin ~/.bun/bin ~/.deno/bin
	~/.volta/bin ~/.asdf/shims ~/.local/share/mise/shims ~/.local/share/fnm/aliases/default/bin ~/.nvm/versions/node/*/bin
	~/.nix-profile/bin /nix/var/nix/profiles/default/bin /run/current-system/sw/bin`)

// completePath is a PATH with those folders behind its own that it lacks and that exist. On Windows desktop programs have the user's
// PATH: it stays as it is.
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

// withFolder is a PATH with a folder at its end, if it is not in it.
func withFolder(path, folder string) string {
	folders := filepath.SplitList(path)
	if slices.Contains(folders, folder) {
		return path
	}
	return strings.Join(append(folders, folder), string(filepath.ListSeparator))
}

// newest is the folder of the newest version among those that a * matches; "": there is none.
func newest(folder string) string {
	before, after, pattern := strings.Cut(folder, "*")
	if !pattern {
		return folder
	}
	versions, _ := os.ReadDir(before) // a folder that is not there has none
	if len(versions) == 0 {
		return ""
	}
	number := func(e fs.DirEntry) (n [3]int) {
		_, _ = fmt.Sscanf(e.Name(), "v%d.%d.%d", &n[0], &n[1], &n[2]) // a name that is no version is the oldest
		return n
	}
	last := slices.MaxFunc(versions, func(a, b fs.DirEntry) int {
		one, other := number(a), number(b)
		return slices.Compare(one[:], other[:])
	})
	return before + last.Name() + after
}

// lookUp finds a program in the folders of a PATH; "": in none of them. One that is named by a path is where it says, relative to dir.
func lookUp(command, path, dir string) string {
	folders := filepath.SplitList(path)
	if filepath.Base(command) != command {
		folders = []string{dir}
		if filepath.IsAbs(command) {
			folders = []string{""}
		}
	} else { // an empty one would be the working directory
		folders = slices.DeleteFunc(folders, func(folder string) bool { return folder == "" })
	}
	for _, folder := range folders {
		whole, err := filepath.Abs(filepath.Join(folder, command))
		if err != nil {
			continue
		}
		if found, err := exec.LookPath(whole); err == nil {
			return found
		}
	}
	return ""
}

// DesktopPath is the PATH of programs that are started from a desktop: it is that of no shell.
func DesktopPath() string {
	switch runtime.GOOS {
	case "windows":
		return os.Getenv("PATH")
	case "darwin":
		return "/usr/bin:/bin:/usr/sbin:/sbin"
	}
	return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}

// Program is where the program of a server's command is.
type Program struct {
	Path  string // "": it is found nowhere
	Added bool   // it is in a folder that a PATH was completed with
}

// FindProgram looks a server's program up as a start would, where onecall itself has a PATH. Of the options it reads Command, Env and
// Dir.
func FindProgram(o *Options, path string) Program {
	if own, ok := o.Env["PATH"]; ok {
		return Program{Path: lookUp(o.Command, own, o.Dir)}
	}
	if found := lookUp(o.Command, path, o.Dir); found != "" {
		return Program{Path: found}
	}
	found := lookUp(o.Command, completePath(path, runtime.GOOS, os.Getenv("HOME")), o.Dir)
	return Program{found, found != ""}
}
