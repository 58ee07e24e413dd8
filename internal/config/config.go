// Package config reads the configuration file. It decodes, expands and checks it, and returns plain structs. It creates no source,
// engine or server.
package config

import (
	_ "embed"
	"time"
)

// schema is the published JSON Schema of a configuration.
//
//go:embed config.schema.json
var schema []byte

// Schema returns the JSON Schema of a configuration. It must not be changed.
func Schema() []byte { return schema }

// Config is a configuration. A nil field was not given; the package that it configures has the default. internal/gen writes
// config.schema.json from the structs: the comment above a field is its description there.
type Config struct {
	// MCP servers by name, in the format of MCP clients. In command, args, env, cwd, url and headers, ${VAR} and ${VAR:-default} are replaced
	// with environment variables.
	MCPServers Table[MCPServer] `yaml:"mcpServers" entries:"null"`
	// Services by name, described by OpenAPI documents.
	OpenAPI Table[OpenAPI] `yaml:"openapi"`
	// The embedded functions http.*.
	HTTP HTTP `yaml:"http"`
	// The embedded file functions fs.*.
	FS FS `yaml:"fs"`
	// Programs by name: each is the function sh.NAME. A text in place of an object is the name of a preset; preset means the one that is named
	// like the entry: git offers sh.NAME.log, diff, status and show, go offers sh.NAME.test, and rg is sh.NAME.
	Commands Table[Command] `yaml:"commands"`
	// Settings of functions, by name or by a pattern in which * stands for any characters. If several patterns match, each setting comes from
	// the most exact one that has it.
	Functions Table[Function] `yaml:"functions" entries:"null"`

	// The tools that clients of onecall serve see. chain: chain, search and info; dispatch: those three, a dispatcher for each group, and the
	// functions in no group; flat: those three and every function; hybrid: those three, the dispatchers and every function.
	Surface *string `yaml:"surface" validate:"oneof=chain dispatch flat hybrid" default:"chain"`
	// Dispatchers by name. Each value is a list of resources, or an object of resources and description.
	Groups Table[Group] `yaml:"groups"`
	// true: adds the tool chain_read, for chains that only read.
	ReadTool *bool `yaml:"readTool" default:"false"`
	// true: adds a dispatcher for each resource that is in no group.
	Autodispatch *bool `yaml:"autodispatch" default:"false"`
	// What becomes of functions in no group, on the surface dispatch. flat: they are tools of their own; hide: only chains call them.
	Ungrouped *string `yaml:"ungrouped" validate:"oneof=flat hide" default:"flat"`
	// Names of arguments that a chain or a dispatcher's call may give once, at its top level, for every step whose function declares them.
	Hoist []string `yaml:"hoist" recorded:"yes"`
	// Further names of arguments: each key is accepted in place of its value, for every function that declares the value as an argument.
	Aliases map[string]string `yaml:"aliases" recorded:"yes"`
	// The tiers of clients of onecall serve: read < read_write < admin.
	Access Access `yaml:"access"`

	// Answer in the lite form unless a chain sets lite.
	Lite *bool `yaml:"lite" recorded:"yes" default:"false"`
	// Limits of one chain. A chain can lower them, but not raise them.
	Budget Budget `yaml:"budget" recorded:"yes"`
	// Limits of size and concurrency.
	Limits Limits `yaml:"limits" recorded:"yes"`
	// The store of results that do not fit into an answer. A continuation token fetches them.
	Results Results `yaml:"results" recorded:"yes"`
	// The record of what runs did, which resume, approval and undo need.
	Journal Journal `yaml:"journal"`
	// The server that lets chains outlive this process, temporal://host:7233/namespace. It is for onecall-temporal: its run --durable, its
	// batches and its workers.
	Engine *string `yaml:"engine" expand:"text"`
	// The calls that need approval before they are made. destroy: destructive ones; write: all that write; always: reads, too. A function's
	// own setting wins.
	Approve *string `yaml:"approve" validate:"oneof=never destroy write always" default:"never"`
	// Who approves calls. caller: the caller, by sending the chain again; person: a person, at the client, on the terminal, with onecall
	// approve, or in the console.
	ApproveBy *string `yaml:"approveBy" validate:"oneof=caller person" default:"caller"`
	// How long a decision about calls holds.
	Approvals Approvals `yaml:"approvals"`
	// Where values with a label may go: labels that functions give, and rules between them and arguments.
	Flows Flows `yaml:"flows" recorded:"yes"`
	// Whether functions of MCP servers and OpenAPI services must be as onecall.lock beside this file says. warn: one that differs, or that the
	// lock does not name, is served and told. enforce: it is not served until onecall lock --accept NAME; that needs a lock made with --all.
	ToolLock *string `yaml:"toolLock" validate:"oneof=off warn enforce" default:"off"`
	// The answers of onecall hook to a host that asks before each tool call.
	Hook Hook `yaml:"hook"`
	// Environment variables whose values count as secrets, beside those that look so.
	SecretVariables []string `yaml:"secrets"`
	// Environment variables whose values are no secrets, although they look so.
	PlainVariables []string `yaml:"plain"`
	// Sessions of clients.
	Session Session `yaml:"session"`
	// What chains keep for later ones: the functions state.*, and $state.
	State State `yaml:"state"`
	// How tokens are counted.
	Tokens Tokens `yaml:"tokens" recorded:"yes"`
	// An order of functions from cheap to costly. A call that skips more than one of them for its subject gets a warning or is refused.
	Ladder Ladder `yaml:"ladder" recorded:"yes"`
	// Learn and show the shapes of results (names and types, never values) of functions that declare none.
	Shapes *string `yaml:"shapes" validate:"oneof=on off" default:"on"`
}

// Approvals configures how long a decision about calls holds.
type Approvals struct {
	// How long a call that a person has denied is denied to its caller in later runs too, without a question; 0s: in its run alone.
	Remember *time.Duration `yaml:"remember" validate:"min=0s" default:"10m"`
}

// Group configures a dispatcher. A list in its place is its resources.
type Group struct {
	// Names of resources, such as device or netbox.device, or patterns with *.
	Resources []string `yaml:"resources" list:"yes" needed:"yes"`
	// The purpose of the group, for the tool's description.
	Description *string `yaml:"description"`
}

// FS configures the functions fs.*.
type FS struct {
	// The folder that holds all files to be read, relative to this file. Without it: the working directory; a server that is started in /
	// offers no fs functions.
	Root *string `yaml:"root" validate:"min=1"`
	// Folders in root whose files the functions fs.write, fs.edit, fs.move, fs.remove and fs.mkdir may change, relative to root; "." is root
	// itself. Without any, these functions are not offered.
	Write []string `yaml:"write"`
}

// Budget bounds one chain.
type Budget struct {
	// Tokens of the answer; 0: no budget. Default: 10000 with onecall serve, none for other commands.
	MaxTotalTokens *int `yaml:"maxTotalTokens" validate:"eq=0|min=150"`
	MaxSteps       *int `yaml:"maxSteps" validate:"min=1" default:"1000"`
	// Calls of functions, including repetitions.
	MaxCalls *int `yaml:"maxCalls" validate:"min=1" default:"200000"`
	// Time of a chain. Default: 110000 with onecall serve, none for other commands.
	MaxDurationMs *int `yaml:"maxDurationMs" validate:"min=1"`
}

// Limits bound what onecall accepts from any client.
type Limits struct {
	// Steps of a chain; the smaller of this and budget.maxSteps applies.
	MaxSteps *int `yaml:"maxSteps" validate:"min=1" default:"1000"`
	// Calls of one chain that run at once.
	MaxConcurrency *int `yaml:"maxConcurrency" validate:"min=1" default:"16"`
	// The size of one step's result.
	MaxResultBytes *Size `yaml:"maxResultBytes" validate:"min=1" default:"64MiB"`
	// The size of all results that a chain holds. All running chains together may hold four times as much.
	MaxChainBytes *Size `yaml:"maxChainBytes" validate:"min=1" default:"256MiB"`
	// The size of a chain's text.
	MaxRequestBytes *Size `yaml:"maxRequestBytes" validate:"min=1" default:"4MiB"`
	// Elements of a forEach.
	MaxElements *int `yaml:"maxElements" validate:"min=1" default:"100000"`
	// The size of a function's description; a longer one is cut. Without it, none is: most clients show a description whole, and those
	// that do not cut it themselves.
	MaxDescription *Size `yaml:"maxDescription" validate:"min=100"`
	// HTTP sessions of all clients together. With tokens, one caller may have a quarter of them.
	MaxSessions *int `yaml:"maxSessions" recorded:"no" validate:"min=1" default:"1000"`
}

// Results configures where results are stored, for how long, and when they are shortened.
type Results struct {
	// disk: the user's cache folder, where later commands find them. postgres: the database of the journal, which must be in PostgreSQL;
	// shared by all processes that use it. Without it: memory with onecall serve (disk if it has workers), disk for other commands.
	Store *string `yaml:"store" recorded:"no" expand:"text"`
	// How long a result is kept after its last use; at least 1s.
	TTL *time.Duration `yaml:"ttl" validate:"min=1s" default:"5m"`
	// The maximum time that a result is kept, however often it is used; at least ttl.
	MaxTTL *time.Duration `yaml:"maxTtl" validate:"min=1s" default:"1h"`
	// The size of all results together, and so also of the largest one.
	MaxBytes *Size `yaml:"maxBytes" validate:"min=1" default:"1GiB"`
	// Items or lines per page.
	PageSize *int `yaml:"pageSize" validate:"min=1" default:"20"`
	// A result with more tokens than this is answered as a probe even if it fits; 0: never.
	ProbeAbove *int `yaml:"probeAbove" validate:"min=0" default:"0"`
	// The bytes of images, sounds and files that go with an answer over MCP whose result is one, or a list of them; 0: none go.
	MaxBlockBytes *Size `yaml:"maxBlockBytes" validate:"min=0" default:"1MiB"`
	// A write's result with more tokens than this is answered in its lean form, unless the chain sets verify; 0: never.
	LeanAbove *int `yaml:"leanAbove" validate:"min=0" default:"100"`
}

// Journal configures where runs are recorded, and for how long.
type Journal struct {
	// sqlite: a file in the user's state folder. A URL (postgres://): a PostgreSQL server, shared by replicas. memory: as long as the
	// command runs. off: nothing is remembered, and no run can be resumed.
	Store *string `yaml:"store" expand:"text" default:"sqlite"`
	// How long a run is kept after its last event; at least 1s.
	Keep *time.Duration `yaml:"keep" validate:"min=1s" default:"24h"`
	// true: also keeps the arguments and results of successful runs, without secrets, as long as the run is kept. runs and diff can then show
	// them.
	Values *bool `yaml:"values" default:"false"`
	// With PostgreSQL: the secret that encrypts arguments and results, at least 32 bytes, the same for all replicas. It must be given as
	// ${VAR}.
	Key *string `yaml:"key" expand:"credential"`
}

// Hook configures what a host does with a call, by the functions in it. Its lists hold names, or patterns with *. deny wins over ask, and
// ask over allow; the host asks about functions in no list.
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
	// Tokens of all answers in one session. After that, the session gets only fetches and small answers; 0: no limit.
	MaxTokens *int `yaml:"maxTokens" validate:"min=0" default:"0"`
}

// State configures what chains keep for later ones, in the journal's database.
type State struct {
	// The size of all values of one caller, and of those of one shared space. Callers without tokens count as one.
	MaxBytes *Size `yaml:"maxBytes" validate:"min=1" default:"16MiB"`
	// How long a value is kept that names no time; at least 1s.
	TTL *time.Duration `yaml:"ttl" validate:"min=1s" default:"24h"`
	// Spaces that several callers share, by name, each with the names of its tokens (access.tokens) or callers (jwt:…).
	Spaces Table[Space] `yaml:"spaces"`
}

// Space is a space of state that several callers share. A list in its place is its callers.
type Space struct {
	// The callers that share the space.
	Callers []string `yaml:"callers" list:"yes" needed:"yes"`
}

// Tokens configures how tokens are counted.
type Tokens struct {
	Encoding *string `yaml:"encoding" validate:"oneof=o200k_base" default:"o200k_base"`
	// The factor by which counts are multiplied, for models whose vocabulary is not public.
	Factor *float64 `yaml:"factor" validate:"min=0.001,max=1000" default:"1.0"`
}

// Size is a number of bytes.
type Size int64

// Or returns the value of a field, or otherwise if it is not given.
func Or[T any](field *T, otherwise T) T {
	if field == nil {
		return otherwise
	}
	return *field
}

// Ladder is an order of functions from cheap to costly that calls must follow.
type Ladder struct {
	Mode *string `yaml:"mode" validate:"oneof=off warn enforce" default:"off"`
	// The argument that says what a call is about.
	Subject *string `yaml:"subject" validate:"min=1"`
	// Full names of functions, the cheapest first.
	Rungs []string `yaml:"rungs"`
}
