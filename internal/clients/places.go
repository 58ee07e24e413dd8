package clients

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// clientFile is a file in which an MCP client keeps its servers.
type clientFile struct {
	client   string
	path     string
	sections []section
	// folder is what ${workspaceFolder} means in the file: the project's folder; "" where that is not known.
	folder string
}

// machine is what the known places depend on.
type machine struct {
	system  string // as runtime.GOOS has it
	home    string
	project string // the working directory
	getenv  func(string) string
	// program finds a program on the PATH; nil: none is found.
	program func(name string) (string, error)
}

// clientFiles are the known places, those of the project before those of the user: in the clients, too, the nearer wins.
func (m *machine) clientFiles() (files []clientFile) {
	for _, c := range Table {
		for _, p := range c.project {
			files = append(files, clientFile{c.Title, filepath.Join(m.project, p.folder, p.file), c.sectionsOf(p), m.project})
		}
	}
	for _, c := range Table {
		for _, p := range c.places {
			for _, path := range m.paths(p) {
				files = append(files, clientFile{c.Title, path, c.sectionsOf(p), ""})
			}
		}
	}
	return files
}

func (c *Client) sectionsOf(p place) []section {
	if p.sections != nil {
		return p.sections
	}
	return append([]section{c.servers}, c.also...)
}

// paths are the files that a place is: none on another system, several only if it holds a *.
func (m *machine) paths(p place) []string {
	path := m.path(p)
	before, after, pattern := strings.Cut(path, "*")
	switch {
	case !m.has(p):
		return nil
	case !pattern:
		return []string{path}
	}
	folder, _, _ := strings.Cut(filepath.ToSlash(after), "/")
	found, _ := filepath.Glob(before + "*" + folder) // of a pattern that is right: never fails
	for i := range found {
		found[i] += after[len(folder):]
	}
	return found
}

// has reports whether a place is one of this system.
func (m *machine) has(p place) bool {
	return p.on == "" || (p.on == windows) == (m.system == "windows")
}

// path is the file of a place, a * as it is.
func (m *machine) path(p place) string {
	folder := m.getenv(p.variable)
	if p.variable == "" || folder == "" {
		folder = m.expand(p.folder)
	}
	return filepath.Join(folder, p.file)
}

func (m *machine) expand(folder string) string {
	name, rest, _ := strings.Cut(strings.TrimPrefix(folder, "{"), "}")
	base := m.home
	switch name {
	case "settings":
		base = m.settings()
	case "xdg":
		base = m.xdg()
	case "local":
		if base = m.getenv("LOCALAPPDATA"); base == "" {
			base = filepath.Join(m.home, "AppData", "Local")
		}
	}
	return filepath.Join(base, filepath.FromSlash(rest))
}

// settings is the folder in which programs of this system keep what the user sets.
func (m *machine) settings() string {
	switch m.system {
	case "darwin":
		return filepath.Join(m.home, "Library", "Application Support")
	case "windows":
		if folder := m.getenv("APPDATA"); folder != "" {
			return folder
		}
		return filepath.Join(m.home, "AppData", "Roaming")
	}
	return m.xdg()
}

func (m *machine) xdg() string {
	if folder := m.getenv("XDG_CONFIG_HOME"); filepath.IsAbs(folder) {
		return folder
	}
	return filepath.Join(m.home, ".config")
}

// target is the file into which onecall is installed: of the places, the first that is there, else the first whose pattern matches
// (an installation that has not written its file), else the last. Two matches of a pattern are two installations, between which only
// the user can choose.
func (m *machine) target(c *Client) (string, error) {
	var last string
	var matches []string
	for _, p := range c.places {
		if p.old {
			continue
		}
		paths := m.paths(p)
		var present []string
		for _, path := range paths {
			if _, err := os.Lstat(path); err == nil {
				present = append(present, path)
			}
		}
		switch {
		case len(present) == 1:
			return present[0], nil
		case len(present) > 1:
			return "", several(c, present)
		case strings.Contains(p.folder, "*"):
			matches = append(matches, paths...)
		case len(paths) > 0 && (last == "" || !isFolder(filepath.Dir(last))):
			last = paths[0]
		}
	}
	switch len(matches) {
	case 0:
		return last, nil
	case 1:
		return matches[0], nil
	}
	return "", several(c, matches)
}

func several(c *Client, paths []string) error {
	return fault.New(fault.BadRequest, "%s has several installations here: %s: remove those that are not used",
		c.Title, strings.Join(paths, ", "))
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
