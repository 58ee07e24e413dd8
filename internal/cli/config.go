package cli

import (
	_ "embed"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// configSchema is the published JSON Schema of a configuration.
//
//go:embed config.schema.json
var configSchema []byte

// publishedSchema returns the JSON Schema of a configuration. It must not be changed.
func publishedSchema() []byte { return configSchema }

// config is what a configuration says. A nil field is not given: the default of the package that it configures holds.
// config.schema.json describes the same keys, which a test holds true.
type config struct {
	MCPServers table[mcpServerConfig] `yaml:"mcpServers"`
	OpenAPI    table[openAPIConfig]   `yaml:"openapi"`
	HTTP       httpConfig             `yaml:"http"`
	FS         fsConfig               `yaml:"fs"`
	Functions  table[functionConfig]  `yaml:"functions"` // by pattern

	Surface      *string            `yaml:"surface" validate:"omitnil,oneof=chain dispatch flat hybrid"`
	Groups       table[groupConfig] `yaml:"groups"`
	ReadTool     *bool              `yaml:"readTool"`
	Autodispatch *bool              `yaml:"autodispatch"`
	Ungrouped    *string            `yaml:"ungrouped" validate:"omitnil,oneof=flat hide"`
	Hoist        []string           `yaml:"hoist"`
	Aliases      map[string]string  `yaml:"aliases"` // of every function that declares what they stand for
	Access       accessConfig       `yaml:"access"`

	Lite    *bool         `yaml:"lite"`
	Budget  budgetConfig  `yaml:"budget"`
	Limits  limitsConfig  `yaml:"limits"`
	Results resultsConfig `yaml:"results"`
	Session sessionConfig `yaml:"session"`
	Tokens  tokensConfig  `yaml:"tokens"`
	Ladder  ladderConfig  `yaml:"ladder"`
	Shapes  *string       `yaml:"shapes" validate:"omitnil,oneof=on off"`
}

// groupConfig is a dispatcher; a list stands for its resources.
type groupConfig struct {
	Resources   []string `yaml:"resources" list:"yes"`
	Description *string  `yaml:"description"`
}

type fsConfig struct {
	Root  *string  `yaml:"root" validate:"omitnil,min=1"` // relative to the configuration's file
	Write []string `yaml:"write"`                         // must be empty: there are no functions that write files yet
}

type budgetConfig struct {
	MaxTotalTokens *int `yaml:"maxTotalTokens" validate:"omitnil,eq=0|min=150"` // 0: none
	MaxSteps       *int `yaml:"maxSteps" validate:"omitnil,min=1"`
	MaxCalls       *int `yaml:"maxCalls" validate:"omitnil,min=1"`
	MaxDurationMs  *int `yaml:"maxDurationMs" validate:"omitnil,min=1"`
}

type limitsConfig struct {
	MaxSteps        *int  `yaml:"maxSteps" validate:"omitnil,min=1"`
	MaxConcurrency  *int  `yaml:"maxConcurrency" validate:"omitnil,min=1"`
	MaxResultBytes  *size `yaml:"maxResultBytes" validate:"omitnil,min=1"`
	MaxChainBytes   *size `yaml:"maxChainBytes" validate:"omitnil,min=1"`
	MaxRunningBytes *size `yaml:"maxRunningBytes" validate:"omitnil,min=1"` // of all chains together
	MaxRequestBytes *size `yaml:"maxRequestBytes" validate:"omitnil,min=1"`
	MaxElements     *int  `yaml:"maxElements" validate:"omitnil,min=1"`
	MaxSessions     *int  `yaml:"maxSessions" validate:"omitnil,min=1"` // of all clients over HTTP
}

type resultsConfig struct {
	Store      *string        `yaml:"store" expand:"text"` // memory, disk, or a URL
	TTL        *time.Duration `yaml:"ttl" validate:"omitnil,min=1s"`
	MaxTTL     *time.Duration `yaml:"maxTtl" validate:"omitnil,min=1s"`
	MaxBytes   *size          `yaml:"maxBytes" validate:"omitnil,min=1"`
	PageSize   *int           `yaml:"pageSize" validate:"omitnil,min=1"`
	ProbeAbove *int           `yaml:"probeAbove" validate:"omitnil,min=0"` // 0: off
	LeanAbove  *int           `yaml:"leanAbove" validate:"omitnil,min=0"`  // 0: off
}

type sessionConfig struct {
	MaxTokens *int           `yaml:"maxTokens" validate:"omitnil,min=0"` // 0: nothing is added up
	Timeout   *time.Duration `yaml:"timeout" validate:"omitnil,min=1s"`
}

type tokensConfig struct {
	Encoding *string  `yaml:"encoding" validate:"omitnil,oneof=o200k_base"`
	Factor   *float64 `yaml:"factor" validate:"omitnil,min=0.001,max=1000"`
}

// size is a number of bytes.
type size int64

// valueOr is what a field says, or the default where it is not given.
func valueOr[T any](field *T, otherwise T) T {
	if field == nil {
		return otherwise
	}
	return *field
}

// configFile is a configuration with the text that it was read from; the zero value is the one of no file.
type configFile struct {
	config
	path   string           // "": there is no file
	text   []byte           // once it is read: as the lines of faults show it, in the same lines and columns, without what may be secret
	shown  []byte           // once it is read: the text without what is known as secret
	places map[string]place // by JSON Pointer

	// unread tells that nothing of the file was read, half that what it says of who has access may not have been, or not as it
	// was meant: of what it does not say then, nothing follows. Both have faults.
	unread, half bool

	// secrets are the values that must not leave onecall, of 6 bytes at least, variables filled in.
	secrets []string
	// warnings tell of what was accepted and is not carried out.
	warnings []*fault.Error
}

// configError is a configuration that cannot be used: the exit status is 4.
type configError struct {
	file   string
	text   []byte
	faults []*fault.Error
}

func (e *configError) Error() string { return e.file + ": " + e.faults[0].Error() }

// maxConfigBytes bounds a configuration.
const maxConfigBytes = 256 << 10

// loadConfig reads the configuration that was named, or else the one that is found. Both results are of use together:
// the configuration holds what could be read, so that whoever uses it can add the faults that it finds.
func loadConfig(named string) (*configFile, []*fault.Error) {
	path, f := findConfig(named)
	if f != nil {
		return &configFile{path: path, unread: true}, []*fault.Error{f}
	}
	if path == "" {
		return &configFile{}, nil
	}
	text, f := readConfig(path)
	if f != nil {
		return &configFile{path: path, unread: true}, []*fault.Error{f}
	}
	c, faults := parseConfig(path, text, os.LookupEnv)
	c.anchor()
	return c, faults
}

// parseConfig reads the text of a configuration, JSON or YAML by the ending of its path. lookup returns the value of an
// environment variable, and whether it is set. Relative paths are not resolved.
func parseConfig(path string, text []byte, lookup func(string) (string, bool)) (*configFile, []*fault.Error) {
	c := &configFile{path: path, text: text}
	return c, c.decode(lookup)
}

// anchor makes the relative paths of the configuration relative to its file. A command stays as it is: it is looked up
// as a shell does.
func (c *configFile) anchor() {
	folder := filepath.Dir(c.path)
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
	if jwt := c.Access.JWT; jwt != nil && jwt.Keys != nil && !strings.Contains(*jwt.Keys, "://") {
		join(jwt.Keys)
	}
}

// findConfig gives the path of the configuration: the named one, else onecall.yaml or onecall.json in the working
// directory, else in the folder onecall of the user's configuration folder, else "".
func findConfig(named string) (string, *fault.Error) {
	if named != "" {
		return named, nil
	}
	folders := []string{""}
	if user, err := os.UserConfigDir(); err == nil {
		folders = append(folders, filepath.Join(user, "onecall"))
	}
	for _, folder := range folders {
		var found []string
		for _, name := range []string{"onecall.yaml", "onecall.json"} {
			path := filepath.Join(folder, name)
			if _, err := os.Lstat(path); err == nil {
				found = append(found, path)
			}
		}
		switch len(found) {
		case 1:
			return found[0], nil
		case 2:
			return found[0], fault.New(fault.BadRequest, "beside it is %s: keep one of the two, or name one by --config", found[1])
		}
	}
	return "", nil
}

func readConfig(path string) ([]byte, *fault.Error) {
	text, err := textfile.Read(path, maxConfigBytes)
	switch {
	case err != nil:
		return nil, fault.New(fault.BadRequest, "the configuration cannot be read: %v", textfile.Cause(err))
	case len(text) > maxConfigBytes:
		return nil, fault.New(fault.LimitExceeded, "the configuration has more than %d bytes", maxConfigBytes)
	}
	return text, nil
}

// says reports whether a value is written at a place.
func (c *configFile) says(pointer string) bool {
	_, given := c.places[pointer]
	return given
}

// under makes a fault that some package found in its options the fault of a place in the configuration.
func (c *configFile) under(pointer string, err error) *fault.Error {
	f, ok := fault.As(err)
	if !ok {
		f = fault.New(fault.BadRequest, "%v", err)
	}
	f = f.Under(pointer)
	for at := f.At; ; at = at[:strings.LastIndexByte(at, '/')] {
		if p, ok := c.places[at]; ok {
			f.Line, f.Column = p.line, p.column
			return f
		}
		if at == "" {
			return f
		}
	}
}

// settled puts faults in the order of their places, each once. The first ones were found as the configuration was read:
// what a package says of the same place after that adds nothing.
func (c *configFile) settled(faults []*fault.Error, read int) []*fault.Error {
	list := slices.Clone(faults[:read])
	for _, f := range faults[read:] {
		_, known := c.places[f.At]
		if !slices.ContainsFunc(faults[:read], func(first *fault.Error) bool {
			return first.At == f.At && first.Line == f.Line || !known && f.Line > 0 && first.Line == f.Line && first.Column == f.Column
		}) {
			list = append(list, f)
		}
	}
	list = inOrder(list)
	return slices.CompactFunc(list, func(a, b *fault.Error) bool {
		return a.Line == b.Line && a.Column == b.Column && a.At == b.At && a.Code == b.Code && a.Message == b.Message
	})
}

// refused is the error of a configuration with faults, those of one that was not read from a file included.
func (c *configFile) refused(faults []*fault.Error) error {
	name := c.path
	if name == "" {
		name = "the default configuration"
	}
	return &configError{file: name, text: c.text, faults: faults}
}

// ladderConfig is an order of functions from cheap to costly, to which calls are kept.
type ladderConfig struct {
	Mode    *string  `yaml:"mode" validate:"omitnil,oneof=off warn enforce"`
	Subject *string  `yaml:"subject" validate:"omitnil,min=1"` // the argument that says what a call is about
	Rungs   []string `yaml:"rungs"`
}
