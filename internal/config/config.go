// Package config reads the configuration file: it decodes, expands and checks it, and gives plain structs. It builds no source,
// engine or server.
package config

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

// schema is the published JSON Schema of a configuration.
//
//go:embed config.schema.json
var schema []byte

// Schema returns the JSON Schema of a configuration. It must not be changed.
func Schema() []byte { return schema }

// Config is what a configuration says. A nil field is not given: the default of the package that it configures holds.
// internal/gen writes config.schema.json from the structs: the comment above a field is its description there.
type Config struct {
	// MCP servers by name, as MCP clients write them. In command, args, env, cwd, url and headers, ${VAR} and ${VAR:-default} are filled in
	// from the environment.
	MCPServers Table[MCPServer] `yaml:"mcpServers" entries:"null"`
	// Services by name, described by OpenAPI documents.
	OpenAPI Table[OpenAPI] `yaml:"openapi"`
	// The embedded functions http.*.
	HTTP HTTP `yaml:"http"`
	// The embedded file functions fs.*.
	FS FS `yaml:"fs"`
	// What holds for the functions whose names fit a pattern, in which * stands for any characters. Of several patterns that fit, each thing
	// is said by the most exact.
	Functions Table[Function] `yaml:"functions" entries:"null"`

	// The tools that clients of onecall serve see. chain: chain, search and info; dispatch: those, a dispatcher for each group, and the
	// functions of no group; flat: those and every function; hybrid: dispatchers and functions.
	Surface *string `yaml:"surface" validate:"oneof=chain dispatch flat hybrid" default:"chain"`
	// Dispatchers by name, each with its resources: a list, or an object of resources and description.
	Groups Table[Group] `yaml:"groups"`
	// true: adds the tool chain_read, whose chains only read.
	ReadTool *bool `yaml:"readTool" default:"false"`
	// true: a dispatcher for each resource that is in no group.
	Autodispatch *bool `yaml:"autodispatch" default:"false"`
	// Functions of no group, with the surfaces dispatch and hybrid: flat, as tools of their own, or hide.
	Ungrouped *string `yaml:"ungrouped" validate:"oneof=flat hide" default:"flat"`
	// Names that are accepted at the top level of a chain or a dispatcher's call, as arguments of every step whose function declares them.
	Hoist []string `yaml:"hoist"`
	// Further names of arguments, of every function that declares the second: the name that is accepted, and the one that the function
	// declares.
	Aliases map[string]string `yaml:"aliases"`
	// What the clients of onecall serve may use: read < read_write < admin.
	Access Access `yaml:"access"`

	// Answer in the lite form where a chain does not say otherwise.
	Lite *bool `yaml:"lite" default:"false"`
	// What one chain may cost. A chain can lower these, not raise them.
	Budget Budget `yaml:"budget"`
	// Bounds of what is held and done at once.
	Limits Limits `yaml:"limits"`
	// Results that do not fit their answer are kept, to be fetched by their token.
	Results Results `yaml:"results"`
	// Where it is remembered what runs did, so that they can be resumed, approved and undone.
	Journal Journal `yaml:"journal"`
	// Calls that need approval before they are made: those that destroy, or all that write. A function can say otherwise.
	Approve *string `yaml:"approve" validate:"oneof=never destroy write" default:"never"`
	// Who approves them. caller: whoever sends the chain, by sending it once more; person: a person, at the client, on the terminal or by
	// onecall approve.
	ApproveBy *string `yaml:"approveBy" validate:"oneof=caller person" default:"caller"`
	// What onecall hook says to a host that asks it before each call of a tool.
	Hook Hook `yaml:"hook"`
	// Sessions of clients.
	Session Session `yaml:"session"`
	// How tokens are counted.
	Tokens Tokens `yaml:"tokens"`
	// Functions from cheap to costly: a call that skips more than one of them for its subject is warned about or refused.
	Ladder Ladder `yaml:"ladder"`
	// Whether the shapes of results (names and types, never a value) of functions that declare none are learnt and shown.
	Shapes *string `yaml:"shapes" validate:"oneof=on off" default:"on"`
}

// Group is a dispatcher; a list stands for its resources.
type Group struct {
	// Names of resources, such as device or netbox.device, or patterns with *.
	Resources []string `yaml:"resources" list:"yes" needed:"yes"`
	// What the group is for, in the tool's description.
	Description *string `yaml:"description"`
}

// FS is what fs.* may do.
type FS struct {
	// The folder below which all files lie, relative to this file. Without it: the working directory; a server that is started in / offers none.
	Root *string `yaml:"root" validate:"min=1"`
	// Must be empty: functions that write files are not supported yet.
	Write []string `yaml:"write"`
}

// Budget bounds one chain.
type Budget struct {
	// Tokens of the answer; 0 is none. Without it: 10000 with onecall serve, none for other commands.
	MaxTotalTokens *int `yaml:"maxTotalTokens" validate:"eq=0|min=150"`
	MaxSteps       *int `yaml:"maxSteps" validate:"min=1" default:"1000"`
	// Calls of functions, repetitions included.
	MaxCalls *int `yaml:"maxCalls" validate:"min=1" default:"200000"`
	// How long a chain may take. Without it: 110000 with onecall serve, none for other commands.
	MaxDurationMs *int `yaml:"maxDurationMs" validate:"min=1"`
}

// Limits bound what onecall takes from anybody.
type Limits struct {
	// Steps of a chain; the smaller of this and budget.maxSteps holds.
	MaxSteps *int `yaml:"maxSteps" validate:"min=1" default:"1000"`
	// Calls of one chain that run at once.
	MaxConcurrency *int `yaml:"maxConcurrency" validate:"min=1" default:"16"`
	// One step's result.
	MaxResultBytes *Size `yaml:"maxResultBytes" validate:"min=1" default:"64MiB"`
	// All results that a chain keeps. All running chains together may hold four times as much.
	MaxChainBytes *Size `yaml:"maxChainBytes" validate:"min=1" default:"256MiB"`
	// A chain as text.
	MaxRequestBytes *Size `yaml:"maxRequestBytes" validate:"min=1" default:"4MiB"`
	// Elements of a forEach.
	MaxElements *int `yaml:"maxElements" validate:"min=1" default:"100000"`
	// Sessions over HTTP, of all clients together. Where there are tokens, a caller may have a quarter of them.
	MaxSessions *int `yaml:"maxSessions" validate:"min=1" default:"1000"`
}

// Results says where results are kept, for how long, and when they are shortened.
type Results struct {
	// disk: the user's cache folder, where later commands find them. A URL (redis://, rediss://, unix://): a Redis or Valkey server, shared
	// by all who use it. Without it: memory with onecall serve, disk for other commands.
	Store *string `yaml:"store" expand:"text"`
	// The life of a result after its last use; 1s at least.
	TTL *time.Duration `yaml:"ttl" validate:"min=1s" default:"5m"`
	// The most that use extends a life to; at least ttl.
	MaxTTL *time.Duration `yaml:"maxTtl" validate:"min=1s" default:"1h"`
	// All results together, and so the largest.
	MaxBytes *Size `yaml:"maxBytes" validate:"min=1" default:"1GiB"`
	// Items or lines of a page.
	PageSize *int `yaml:"pageSize" validate:"min=1" default:"20"`
	// A result of more tokens is a probe even where it fits; 0 is off.
	ProbeAbove *int `yaml:"probeAbove" validate:"min=0" default:"0"`
	// The result of a write of more tokens is answered in its lean form, where the chain does not say verify; 0 is off.
	LeanAbove *int `yaml:"leanAbove" validate:"min=0" default:"100"`
}

// Journal says where runs are remembered, and for how long.
type Journal struct {
	// sqlite: a file in the user's state folder. A URL (postgres://): a PostgreSQL server, shared by replicas. memory: as long as the command
	// runs. off: nothing is remembered, and no run can be resumed.
	Store *string `yaml:"store" expand:"text" default:"sqlite"`
	// How long a run is kept after the last it did; 1s at least.
	Keep *time.Duration `yaml:"keep" validate:"min=1s" default:"24h"`
	// runs and diff show the arguments and results of calls, without secrets, for as long as a run is kept; those of runs that ended well are kept
	// for it.
	Values *bool `yaml:"values" default:"false"`
	// With PostgreSQL, the secret that arguments and results are encrypted under, of 32 bytes at least, the same for all replicas. By ${VAR}
	// only.
	Key *string `yaml:"key" expand:"credential"`
}

// Hook is what a host does with calls, by the names of the functions in them, or patterns with *. deny wins over ask, and ask over allow; what
// is in no list is asked about.
type Hook struct {
	// Functions that are called without a question.
	Allow []string `yaml:"allow"`
	// Functions that the host asks its user about.
	Ask []string `yaml:"ask"`
	// Functions that are not called.
	Deny []string `yaml:"deny"`
}

// Session bounds a session.
type Session struct {
	// Tokens of all answers to one client's session: past them only fetches and small answers are given; 0 is no bound, and nothing is added
	// up.
	MaxTokens *int `yaml:"maxTokens" validate:"min=0" default:"0"`
}

// Tokens says how tokens are counted.
type Tokens struct {
	Encoding *string `yaml:"encoding" validate:"oneof=o200k_base" default:"o200k_base"`
	// Counts are multiplied by it, for models whose vocabulary is not public.
	Factor *float64 `yaml:"factor" validate:"min=0.001,max=1000" default:"1.0"`
}

// Size is a number of bytes.
type Size int64

// Or is what a field says, or the default where it is not given.
func Or[T any](field *T, otherwise T) T {
	if field == nil {
		return otherwise
	}
	return *field
}

// File is a configuration with the text that it was read from; the zero value is the one of no file.
type File struct {
	Config
	Path   string           // "": there is no file
	Text   []byte           // once it is read: as the lines of faults show it, in the same lines and columns, without what may be secret
	Shown  []byte           // once it is read: the text without what is known as secret
	places map[string]place // by JSON Pointer

	// Settings are what the text says, as it is written, by JSON Pointer: for comparing two configurations. They may be secret.
	Settings map[string]string

	// Unread tells that nothing of the file was read, half that what it says of who has access may not have been, or not as it
	// was meant: of what it does not say then, nothing follows. Both have faults.
	Unread, AccessUnsure bool

	// Secrets are the values that must not leave onecall, of 6 bytes at least, variables filled in.
	Secrets []string
	// Unset has, for entries of mcpServers and openapi, by JSON Pointer, the first variable of the environment that is missing: the
	// source is down.
	Unset map[string]*fault.Error
	// Warnings tell of what was accepted and is not carried out.
	Warnings []*fault.Error
}

// Error is a configuration that cannot be used: the exit status is 4.
type Error struct {
	File   string
	Text   []byte
	Faults []*fault.Error
}

func (e *Error) Error() string { return e.File + ": " + e.Faults[0].Error() }

// MaxBytes bounds a configuration.
const MaxBytes = 256 << 10

// Load reads the configuration that was named, or else the one that is found. Both results are of use together:
// the configuration holds what could be read, so that whoever uses it can add the faults that it finds.
func Load(named string) (*File, []*fault.Error) {
	path, f := Find(named)
	if f != nil {
		return &File{Path: path, Unread: true}, []*fault.Error{f}
	}
	if path == "" {
		return &File{}, nil
	}
	text, f := readFile(path)
	if f != nil {
		return &File{Path: path, Unread: true}, []*fault.Error{f}
	}
	c, faults := Parse(path, text, os.LookupEnv)
	c.anchor()
	return c, faults
}

// Parse reads the text of a configuration, JSON or YAML by the ending of its path. lookup returns the value of an
// environment variable, and whether it is set. Relative paths are not resolved.
func Parse(path string, text []byte, lookup func(string) (string, bool)) (*File, []*fault.Error) {
	c := &File{Path: path, Text: text}
	return c, c.decode(lookup)
}

// anchor makes the relative paths of the configuration relative to its file. A command stays as it is: it is looked up
// as a shell does.
func (c *File) anchor() {
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
	if jwt := c.Access.JWT; jwt != nil && jwt.Keys != nil && !strings.Contains(*jwt.Keys, "://") {
		join(jwt.Keys)
	}
}

// Find gives the path of the configuration: the named one, else onecall.yaml or onecall.json in the working
// directory, else in the folder onecall of the user's configuration folder, else "".
func Find(named string) (string, *fault.Error) {
	if named != "" {
		return named, nil
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

// FindIn gives the path of the configuration in a folder; "": there is none.
func FindIn(folder string) (string, *fault.Error) {
	var found []string
	for _, name := range []string{"onecall.yaml", "onecall.json"} {
		path := filepath.Join(folder, name)
		if _, err := os.Lstat(path); err == nil {
			found = append(found, path)
		}
	}
	switch len(found) {
	case 0:
		return "", nil
	case 1:
		return found[0], nil
	}
	return found[0], fault.New(fault.BadRequest, "beside it is %s: keep one of the two, or name one by --config", found[1])
}

// Beside is the other configuration that Find found in the folder of the one it gives.
func Beside(path string) string { return filepath.Join(filepath.Dir(path), "onecall.json") }

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

// Says reports whether a value is written at a place.
func (c *File) Says(pointer string) bool {
	_, given := c.places[pointer]
	return given
}

// Under makes a fault that some package found in its options the fault of a place in the configuration.
func (c *File) Under(pointer string, err error) *fault.Error {
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

// Settled puts faults in the order of their places, each once. The first ones were found as the configuration was read:
// what a package says of the same place after that adds nothing.
func (c *File) Settled(faults []*fault.Error, read int) []*fault.Error {
	list := slices.Clone(faults[:read])
	for _, f := range faults[read:] {
		_, known := c.places[f.At]
		if !slices.ContainsFunc(faults[:read], func(first *fault.Error) bool {
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

// Refused is the error of a configuration with faults, those of one that was not read from a file included.
func (c *File) Refused(faults []*fault.Error) error {
	name := c.Path
	if name == "" {
		name = "the default configuration"
	}
	return &Error{File: name, Text: c.Text, Faults: faults}
}

// Ladder is an order of functions from cheap to costly, to which calls are kept.
type Ladder struct {
	Mode *string `yaml:"mode" validate:"oneof=off warn enforce" default:"off"`
	// The argument that says what a call is about.
	Subject *string `yaml:"subject" validate:"min=1"`
	// Whole names of functions, the cheapest first.
	Rungs []string `yaml:"rungs"`
}
