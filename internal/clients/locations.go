package clients

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// clientFile is a file in which an MCP client stores its servers.
type clientFile struct {
	client   string
	path     string
	sections []section
	// folder is the value of ${workspaceFolder} in the file: the project's folder; "": unknown.
	folder string
}

// machine describes the machine on which the known locations are looked up.
type machine struct {
	system  string // the operating system, named as in runtime.GOOS
	home    string
	project string // the working directory
	getenv  func(string) string
	// program finds a program on the PATH; nil: no program is found.
	program func(name string) (string, error)
}

// clientFiles returns the known files, those of the project before those of the user. Clients, too, give the nearer file precedence.
func (m *machine) clientFiles() (files []clientFile) {
	for _, c := range Table {
		for _, location := range c.project {
			files = append(files, clientFile{c.Title, filepath.Join(m.project, location.folder, location.file), c.sectionsOf(location), m.project})
		}
	}
	for _, c := range Table {
		for _, location := range c.locations {
			for _, path := range m.paths(location) {
				files = append(files, clientFile{c.Title, path, c.sectionsOf(location), ""})
			}
		}
	}
	return files
}

func (c *Client) sectionsOf(location fileLocation) []section {
	if location.sections != nil {
		return location.sections
	}
	return append([]section{c.servers}, c.moreSections...)
}

// paths returns the files of a location, which need not exist. There are none if the location is for another system. A location with a *
// has one for each folder that matches.
func (m *machine) paths(location fileLocation) []string {
	path := m.path(location)
	before, after, pattern := strings.Cut(path, "*")
	switch {
	case !m.has(location):
		return nil
	case !pattern:
		return []string{path}
	}
	folder, _, _ := strings.Cut(filepath.ToSlash(after), "/")
	matches, _ := filepath.Glob(before + "*" + folder) // never fails, as the pattern is valid
	for i := range matches {
		matches[i] += after[len(folder):]
	}
	return matches
}

// rulesOf returns the user's files with a client's rules, which need not exist.
func (m *machine) rulesOf(c *Client) (paths []string) {
	for _, location := range c.rules {
		paths = append(paths, m.path(location))
	}
	return paths
}

// has reports whether a location is for this operating system. The file need not exist.
func (m *machine) has(location fileLocation) bool {
	return location.on == "" || (location.on == windows) == (m.system == "windows")
}

// path returns the file of a location, with * unchanged.
func (m *machine) path(location fileLocation) string {
	folder := m.getenv(location.variable)
	if location.variable == "" || folder == "" {
		folder = m.expand(location.folder)
	}
	return filepath.Join(folder, location.file)
}

// expand replaces the name in braces at the beginning of a location's folder. Any other name than those below, such as home, is the user's
// folder.
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

// settings returns the folder for user settings of programs on this system.
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

// target returns the file to install onecall in: the first file that exists, else the file of a pattern that matches a folder (an
// installation that has not written its file yet), else the first file whose folder exists, else the last location's file. It is an error
// if patterns match several installations: the user has to choose.
func (m *machine) target(c *Client) (string, error) {
	var last string
	var matches []string
	for _, location := range c.locations {
		if location.readOnly {
			continue
		}
		paths := m.paths(location)
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
			return "", severalError(c, present)
		case strings.Contains(location.folder, "*"):
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
	return "", severalError(c, matches)
}

// severalError returns the error of a client with more than one installation.
func severalError(c *Client, paths []string) error {
	return fault.New(fault.BadRequest, "%s has several installations here: %s: remove those that are not used",
		c.Title, strings.Join(paths, ", "))
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
