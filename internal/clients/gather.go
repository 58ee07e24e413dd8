// Package clients reads the MCP servers of other programs, which onecall init imports into a configuration. It also installs onecall in
// these programs, and removes it from them.
package clients

import (
	"os"
	"path/filepath"
	"runtime"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// Gather finds the servers in the files from, or in the known locations if from is empty. path is the configuration to write. A file that
// cannot be read is an error only if from names it.
func Gather(path string, from []string) (*Import, error) {
	project, err := os.Getwd()
	if err != nil {
		return nil, fault.New(fault.BadRequest, "the working directory is not known: %v", textfile.Cause(err))
	}
	out, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, fault.New(fault.BadRequest, "--out: %v", textfile.Cause(err))
	}
	home, err := os.UserHomeDir()
	if err != nil && len(from) == 0 {
		return nil, fault.New(fault.BadRequest, "the home folder is not known: %v: name the files with --from", err)
	}
	im := &Import{project: project, out: out, lookup: os.LookupEnv}
	for _, path := range from {
		if err := im.read(clientFile{client: "--from", path: path, sections: anySections}); err != nil {
			return nil, fault.New(fault.BadRequest, "--from: %s cannot be read: %v", path, textfile.Cause(err))
		}
	}
	if len(from) == 0 {
		im.readAll(&machine{system: runtime.GOOS, home: home, project: project, getenv: os.Getenv})
	}
	im.assignNames()
	return im, nil
}

// readAll adds the servers in the known locations of a machine.
func (im *Import) readAll(m *machine) {
	for _, file := range m.clientFiles() {
		_ = im.read(file) // the report names the files that are missing or cannot be used
	}
	for _, c := range Table {
		rules := m.rulesOf(c)
		for _, location := range c.projectRules {
			rules = append(rules, filepath.Join(m.project, location.folder, location.file))
		}
		im.carryRules(c.Title, rules)
	}
}
