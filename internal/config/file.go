package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// File is a configuration with the text that it was read from. The zero value is the default configuration.
type File struct {
	Config
	Path      string              // "": there is no file
	Redacted  []byte              // the text of the file with the known secrets masked
	positions map[string]position // by JSON Pointer

	// Unreadable is set if nothing of the file could be decoded, AccessUnknown if its settings of access may be missing or wrong. A missing
	// setting then means nothing. Both come with faults.
	Unreadable, AccessUnknown bool

	// Secrets are the values that must not leave onecall, after variables are expanded. Each has at least 6 bytes.
	Secrets []string
	// Variables are the environment variables that the configuration uses, by name.
	Variables []Variable
	// Unset holds the fault of the first missing environment variable of an entry of mcpServers or openapi, by the entry's JSON Pointer.
	// Those sources have failed.
	Unset map[string]*fault.Error
	// Warnings are about settings that are accepted, but have no effect or look wrong.
	Warnings []*fault.Error
}

// Error is an invalid configuration. The exit status is 4.
type Error struct {
	File   string
	Faults []*fault.Error
}

func (e *Error) Error() string { return e.File + ": " + e.Faults[0].Error() }

// MaxBytes is the maximum size of a configuration.
const MaxBytes = 256 << 10

// Load reads the configuration at path name, or the one that Find finds if name is "". Its file is never nil: with faults, it holds what
// could be decoded, so that the caller can add faults of its own.
func Load(name string) (*File, []*fault.Error) {
	path, f := Find(name)
	if f != nil {
		return &File{Path: path, Unreadable: true}, []*fault.Error{f}
	}
	if path == "" {
		return &File{}, nil
	}
	text, f := readFile(path)
	if f != nil {
		return &File{Path: path, Unreadable: true}, []*fault.Error{f}
	}
	c, faults := Parse(path, text, os.LookupEnv)
	c.resolvePaths()
	return c, faults
}

// Parse decodes the text of a configuration, JSON or YAML by the extension of path, with results as those of Load. lookup returns the value
// of an environment variable and whether it is set. Relative paths are not resolved.
func Parse(path string, text []byte, lookup func(string) (string, bool)) (*File, []*fault.Error) {
	c := &File{Path: path}
	return c, c.decode(text, lookup)
}

// resolvePaths makes the configuration's relative paths relative to its file. The commands of MCP servers are unchanged: they are looked
// up as a shell does.
func (c *File) resolvePaths() {
	folder := filepath.Dir(c.Path)
	join := func(path *string) {
		if path != nil && *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(folder, *path)
		}
	}
	join(c.FS.Root)
	for i := range c.MCPServers {
		join(c.MCPServers[i].Config.Cwd)
	}
	for i := range c.OpenAPI {
		if spec := c.OpenAPI[i].Config.Spec; spec != nil && !strings.Contains(*spec, "://") {
			join(spec)
		}
	}
	for i := range c.Commands {
		if run := c.Commands[i].Config.Run; len(run) > 0 && strings.ContainsAny(run[0], `/`+string(filepath.Separator)) {
			join(&run[0])
		}
	}
	if jwt := c.Access.JWT; jwt != nil && jwt.Keys != nil && !strings.Contains(*jwt.Keys, "://") {
		join(jwt.Keys)
	}
}

// Find returns the path of the configuration: name if it is not "", else onecall.yaml or onecall.json in the working directory or in
// the folder onecall of the user's configuration folder, else "". The fault is that of FindIn.
func Find(name string) (string, *fault.Error) {
	if name != "" {
		return name, nil
	}
	folders := []string{""}
	if user, err := os.UserConfigDir(); err == nil {
		folders = append(folders, filepath.Join(user, "onecall"))
	}
	for _, folder := range folders {
		if path, f := FindIn(folder); path != "" {
			return path, f
		}
	}
	return "", nil
}

// FindIn returns the path of the configuration in a folder; "": there is none. If onecall.yaml and onecall.json both exist, it returns the
// path of onecall.yaml along with a bad_request.
func FindIn(folder string) (string, *fault.Error) {
	var paths []string
	for _, name := range []string{"onecall.yaml", "onecall.json"} {
		path := filepath.Join(folder, name)
		if _, err := os.Lstat(path); err == nil {
			paths = append(paths, path)
		}
	}
	switch len(paths) {
	case 0:
		return "", nil
	case 1:
		return paths[0], nil
	}
	return paths[0], fault.New(fault.BadRequest, "there is a second configuration, %s: keep one of the two, or name one with --config", paths[1])
}

// OtherFile returns the path of onecall.json beside path, which is the onecall.yaml that Find returned with a fault.
func OtherFile(path string) string { return filepath.Join(filepath.Dir(path), "onecall.json") }

func readFile(path string) ([]byte, *fault.Error) {
	text, err := textfile.Read(path, MaxBytes)
	switch {
	case err != nil:
		return nil, fault.New(fault.BadRequest, "the configuration cannot be read: %v", textfile.Cause(err))
	case len(text) > MaxBytes:
		return nil, fault.New(fault.LimitExceeded, "the configuration has more than %d bytes", MaxBytes)
	}
	return text, nil
}

// Has reports whether the setting at pointer is given.
func (c *File) Has(pointer string) bool {
	_, given := c.positions[pointer]
	return given
}

// FaultAt converts an error of a package's options into a fault of the setting at pointer. Its line and column are those of that setting,
// or of the nearest setting around it that is in the file; 0: none is. It has no Source: variables may be expanded in that, to secrets.
func (c *File) FaultAt(pointer string, err error) *fault.Error {
	f, ok := fault.As(err)
	if !ok {
		f = fault.New(fault.BadRequest, "%v", err)
	}
	f = f.Under(pointer)
	f.Source, f.Offset = "", 0
	for at := f.At; ; at = at[:strings.LastIndexByte(at, '/')] {
		if p, ok := c.positions[at]; ok {
			f.Line, f.Column = p.line, p.column
			return f
		}
		if at == "" {
			return f
		}
	}
}

// MergeFaults sorts faults by position and removes duplicates. The first ones, decoded in number, come from decoding. A later fault is
// dropped if one of these is about the same setting, or, for a setting that is not in the file, at the same position.
func (c *File) MergeFaults(faults []*fault.Error, decoded int) []*fault.Error {
	list := slices.Clone(faults[:decoded])
	for _, f := range faults[decoded:] {
		_, known := c.positions[f.At]
		if !slices.ContainsFunc(faults[:decoded], func(first *fault.Error) bool {
			return first.At == f.At && first.Line == f.Line || !known && f.Line > 0 && first.Line == f.Line && first.Column == f.Column
		}) {
			list = append(list, f)
		}
	}
	list = InOrder(list)
	return slices.CompactFunc(list, func(a, b *fault.Error) bool {
		return a.Line == b.Line && a.Column == b.Column && a.At == b.At && a.Code == b.Code && a.Message == b.Message
	})
}

// Refused returns the error of a configuration with these faults, of which there must be at least one.
func (c *File) Refused(faults []*fault.Error) error {
	name := c.Path
	if name == "" {
		name = "the default configuration"
	}
	return &Error{File: name, Faults: faults}
}
