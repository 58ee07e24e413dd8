package config

import (
	"encoding/json"
	"regexp"
	"time"
)

// Table is an object whose keys are names, in the order in which they are written.
type Table[T any] []TableEntry[T]

// TableEntry is one entry of a table.
type TableEntry[T any] struct {
	Name   string // as written
	Config T
}

// Source returns the prefix of the names of the entry's functions.
func (n TableEntry[T]) Source() string { return SourceName(n.Name) }

var invalidSourceBytes = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// MaxSourceName is the maximum length of a source's name.
const MaxSourceName = 64

// SourceName makes a name valid for functions: each run of characters other than ASCII letters, digits, - and _ becomes one _, and the rest
// after MaxSourceName characters is cut off.
func SourceName(name string) string {
	valid := invalidSourceBytes.ReplaceAllString(name, "_")
	return valid[:min(len(valid), MaxSourceName)]
}

// MCPServer configures an MCP server: the keys that clients write, and those that onecall adds. Exactly one of Command and URL is given.
type MCPServer struct {
	// The program of a server over stdio. Exactly one of command and url is required.
	Command *string  `yaml:"command" expand:"text" validate:"min=1"`
	Args    []string `yaml:"args" expand:"arguments" scalars:"yes"`
	// Environment variables for the server, in addition to the few that it gets from onecall's own environment.
	Env map[string]string `yaml:"env" expand:"env" scalars:"yes"`
	// The folder to start in, relative to this file. Without it: the working directory.
	Cwd *string `yaml:"cwd" expand:"text" validate:"min=1"`

	// The endpoint of a server behind HTTP.
	URL *string `yaml:"url" also:"serverUrl httpUrl" expand:"url" validate:"min=1"`
	// Sent with every request to the server.
	Headers map[string]string `yaml:"headers" expand:"headers" scalars:"yes"`

	// The transport. Without it: stdio with a command, http (Streamable HTTP) with a url.
	Type *string `yaml:"type" also:"transport"` // after decoding: stdio, http or sse
	// true: the server is not started, and its variables need not be set.
	Disabled *bool `yaml:"disabled" default:"false"` // after decoding: also true if enabled is false
	// The opposite of disabled.
	Enabled *bool `yaml:"enabled" default:"true"`
	// The tools to offer, by their names or patterns with *; without it, all.
	IncludeTools []string `yaml:"includeTools" also:"enabledTools tools"`
	// The tools to leave out.
	ExcludeTools []string `yaml:"excludeTools" also:"disabledTools"`

	// How groups and help interpret the names of the server's tools. Without it, this follows from its first list of tools.
	Names *string `yaml:"names" validate:"oneof=resource_action action_resource whole"`
	// When the server is started. lazy: at the first call, if its tools are known from an earlier start.
	Start *string `yaml:"start" validate:"oneof=eager lazy" default:"eager"`
	// How long the server may take from its start to its list of tools. Without it, npx and uvx have two minutes, because they may install
	// the server first.
	StartTimeoutMs *int `yaml:"startTimeoutMs" also:"startup_timeout_ms initTimeout" validate:"min=1" default:"30000"`
	// The same in seconds, as Codex writes it.
	StartupTimeoutSec *int `yaml:"startupTimeoutSec" also:"startup_timeout_sec" validate:"min=1,max=86400"`
	// How long one call may take without progress, unless functions or the step set timeoutMs: in milliseconds, as Claude Code and Gemini
	// write it; a number below 1,000 counts as seconds, as Cline and Roo write it. Without it: 30 s.
	Timeout *int `yaml:"timeout" validate:"min=1,max=86400000"`
	// The same in seconds, as Codex writes it.
	ToolTimeoutSec *int `yaml:"toolTimeoutSec" also:"tool_timeout_sec" validate:"min=1,max=86400"`
	// The client that is registered for onecall, if the server asks for a login. Without it, one is registered at the login.
	OAuth *OAuth `yaml:"oauth"`
	// Whose credentials calls carry, if not those in headers and not those of a login. It needs a url.
	Auth *Auth `yaml:"auth" having:"caller clientCredentials"`
	// The maximum number of concurrent calls, of all callers together (with auth.caller, of each credential). Further calls wait, behind at
	// most this many calls of each other caller. Without it: no limit.
	Concurrency *int `yaml:"concurrency" validate:"min=1"`
	// true: clients choose the directories that the server works in, in place of those in its arguments. On the surfaces flat and hybrid,
	// the server gets the roots of the client.
	Roots *bool `yaml:"roots" default:"false"`
	// Labels and roles of the tools of a well-known kind of server, for flow rules. functions takes away and replaces what is set here.
	Labels *string `yaml:"labels" validate:"oneof=github mail files"`
}

// fewestMs is the lowest limit of a call that a client may mean in milliseconds.
const fewestMs = 1000

// CallTimeout returns how long one call of the server's tools may take without progress; 0: not set.
func (s *MCPServer) CallTimeout() time.Duration {
	switch ms := Or(s.Timeout, 0); {
	case ms >= fewestMs:
		return time.Duration(ms) * time.Millisecond
	case ms > 0:
		return time.Duration(ms) * time.Second
	}
	return time.Duration(Or(s.ToolTimeoutSec, 0)) * time.Second
}

// StartTimeout returns how long the server may take to start; 0: not set.
func (s *MCPServer) StartTimeout() time.Duration {
	if s.StartTimeoutMs != nil {
		return time.Duration(*s.StartTimeoutMs) * time.Millisecond
	}
	return time.Duration(Or(s.StartupTimeoutSec, 0)) * time.Second
}

// Off reports whether the server is disabled.
func (s *MCPServer) Off() bool {
	return Or(s.Disabled, false) || !Or(s.Enabled, true)
}

// OAuth is the client that the user registered at a server's authorization server.
type OAuth struct {
	ClientID *string `yaml:"clientId" expand:"text" validate:"min=1"`
	// It must be given as ${VAR}.
	ClientSecret *string  `yaml:"clientSecret" expand:"credential"`
	Scopes       []string `yaml:"scopes"`
	// The port on 127.0.0.1 that the browser is redirected to. Without it: any.
	CallbackPort *int `yaml:"callbackPort" validate:"min=1,max=65535"`
	// The issuer, if it is not the one that the server names.
	AuthServer *string `yaml:"authServer" also:"issuer" expand:"text" validate:"min=1"`
}

// OpenAPI is a service that an OpenAPI document describes.
type OpenAPI struct {
	// The document: OpenAPI 3.0 or 3.1, or Swagger 2.0. A URL, or a path relative to this file.
	Spec *string `yaml:"spec" expand:"text" validate:"min=1" needed:"yes"`
	// The URL of the service, in place of the document's servers.
	BaseURL *string `yaml:"baseUrl" expand:"url" validate:"min=1"`
	// Sent with every request. A credential must be given as ${VAR}.
	Headers map[string]string `yaml:"headers" expand:"ownHeaders" scalars:"yes"`
	// Credentials by the name of the document's security scheme: value, username with password, or clientId with clientSecret. Secrets must
	// be given as ${VAR}.
	Auth Table[Credential] `yaml:"auth"`
	// Or whose credentials calls carry.
	Own *Auth `yaml:"auth" having:"caller clientCredentials"`
	// The functions to offer, without the source's name: resource.action, with * for any characters. Without it: all.
	Include []string `yaml:"include"`
	// The functions to leave out, written in the same way.
	Exclude []string `yaml:"exclude"`

	// The maximum number of concurrent calls, of all callers together. Further calls wait, behind at most this many calls of each other
	// caller. Without it: no limit.
	Concurrency *int `yaml:"concurrency" validate:"min=1"`
}

// HTTP configures the functions http.*.
type HTTP struct {
	// The hosts that may be called: host, host:port or *.example.com, each optionally after http:// or https://.
	Allow []string `yaml:"allow" expand:"text"`
	// Requests by name: each is the function http.NAME.
	Endpoints Table[Endpoint] `yaml:"endpoints"`
}

// Endpoint is one HTTP request as a function. Query, Body, Input and Output are JSON, with numbers and the order of
// keys as they are written.
type Endpoint struct {
	Method *string `yaml:"method" validate:"oneof=GET HEAD OPTIONS POST PUT PATCH DELETE" default:"GET"`
	// A URL template of RFC 6570, such as https://api.example.com/v1/{city}{?units}.
	URL *string `yaml:"url" expand:"template" validate:"min=1" needed:"yes"`
	// Values may refer to $input. A credential must be given as ${VAR}.
	Headers map[string]string `yaml:"headers" expand:"ownHeaders" scalars:"yes"`
	// Whose credentials calls carry, if not those in headers.
	Auth *Auth `yaml:"auth" having:"caller clientCredentials"`
	// Values by name, which may refer to $input.
	Query map[string]json.RawMessage `yaml:"query" expand:"query"`
	// JSON, which may refer to $input.
	Body json.RawMessage `yaml:"body" expand:"value"`
	// The JSON Schema of the arguments.
	Input json.RawMessage `yaml:"input"`
	// The JSON Schema of the result.
	Output      json.RawMessage `yaml:"output"`
	Description *string         `yaml:"description"`
	// What a call does. Without it, this follows from the method.
	Effect *string `yaml:"effect" validate:"oneof=read write destroy"`
	// true: a request may be sent again even if it writes.
	Idempotent *bool `yaml:"idempotent"`
	// body: the body alone; response: an object of status, headers and body.
	Result    *string `yaml:"result" validate:"oneof=body response" default:"body"`
	TimeoutMs *int    `yaml:"timeoutMs" validate:"min=1"`
}

// Command is a program as a function. Exactly one of Preset and Run is given.
type Command struct {
	// A command that is known here, in place of run. Only dir, env and the bounds go with it.
	Preset *string `yaml:"preset" text:"yes" validate:"oneof=preset git go rg"`
	// The path of the program, relative to this file, and its arguments. {n} stands for the argument n of a call. An argument whose value is
	// absent is left out; a list gives one argument for each of its elements. No shell reads them.
	Run []string `yaml:"run" expand:"arguments" scalars:"yes"`
	// The arguments of the function, each with its JSON Schema: texts, numbers, booleans, and lists of them. A value that begins with - is
	// refused, unless it stands after -- in run, or its schema has a pattern or an enum. A text with format: path must stay below fs.root.
	Args map[string]json.RawMessage `yaml:"args"`
	// The arguments that a call may leave out.
	Optional    []string `yaml:"optional"`
	Description *string  `yaml:"description"`
	// What a call does.
	Effect *string `yaml:"effect" validate:"oneof=read write destroy" default:"write"`
	// The folder that the program works in, relative to fs.root. {n} is known here, too.
	Dir *string `yaml:"dir" default:"."`
	// The variables of the program's environment. It gets no others.
	Env map[string]string `yaml:"env" expand:"env" scalars:"yes"`
	// The lowest exit status that is a failure: 2 for programs like grep and diff, whose 1 is an answer.
	FailsFrom *int `yaml:"failsFrom" validate:"min=1,max=256" default:"1"`
	// Regular expressions (RE2) of the lines that a result shows first. Without it: lines that look like errors.
	Errors []string `yaml:"errors"`
	// How much of stdout, and of stderr, is kept.
	MaxOutputBytes *Size `yaml:"maxOutputBytes" validate:"min=1" default:"8MiB"`
	// The data of each process, on Linux.
	MaxMemoryBytes *Size `yaml:"maxMemoryBytes" validate:"min=1" default:"1GiB"`
	// The processor time of each process, on Linux, in whole seconds.
	MaxCPUTime *time.Duration `yaml:"maxCpuTime" validate:"min=1s" default:"5m"`
}

// Function configures the functions whose names match a pattern.
type Function struct {
	Effect *string `yaml:"effect" validate:"oneof=read write destroy"`
	// The tier that a caller needs to use it.
	Tier *string `yaml:"tier" validate:"oneof=read read_write admin"`
	// true: hides the function from everyone.
	Hide *bool `yaml:"hide"`
	// Another full name, for a single function.
	Rename *string `yaml:"rename" validate:"min=1"`
	// When a result becomes a probe. auto: if it does not fit or is above results.probeAbove.
	Heavy *string `yaml:"heavy" validate:"oneof=auto always never" default:"auto"`
	// Arguments for calls that do not give them.
	Defaults json.RawMessage `yaml:"defaults" expand:"value"`
	// Further names of arguments: the name that is accepted, and the one that the function declares.
	Aliases     map[string]string `yaml:"aliases"`
	Description *string           `yaml:"description"`
	// The time limit of one call, if the step sets none.
	TimeoutMs *int `yaml:"timeoutMs" validate:"min=1"`
	// How long an answer may be reused; 0s: never.
	CacheTTL *time.Duration `yaml:"cacheTtl" validate:"min=0"`
	// Which of its calls need approval. Without it: those that the top-level approve names.
	Approve *string `yaml:"approve" validate:"oneof=never destroy write always"`
	// The call that undoes a call of this function, unless the step names another.
	Undo *Undo `yaml:"undo"`
	// How the service recognizes a repeated call, so that a call with an unknown outcome can be made again.
	IdempotencyKey *IdempotencyKey `yaml:"idempotencyKey"`
	// What of an answer is the result. For OpenAPI services and HTTP endpoints, body is the body alone, and response an object of status,
	// headers and body. For tools of MCP servers, structured is the structured content, else the content, text is the text alone, and content
	// an object of structured and content. Without it: structured, the body, or what the endpoint says.
	Result *string `yaml:"result" validate:"oneof=body response structured text content"`
	// ignore: the schema of the result is left out of all checks, because it is wrong.
	Output *string `yaml:"output" validate:"oneof=ignore"`
	// What of the result an answer shows if the function's result is the whole answer. References see all of it.
	Answer *Excerpt `yaml:"answer"`
	// The argument that takes a list of the result's members, or of those of its elements, as an array or as a string with commas. A chain
	// that only reads asks for those that it refers to.
	Fields *string `yaml:"fields" validate:"min=1"`
	// Labels of the result, for flow rules: a list of labels of all of it, or an object of lists by path, such as $result.messages[*].body.
	Gives json.RawMessage `yaml:"gives"`
	// Roles of arguments, for flow rules: an object of roles by argument or by a path in one, such as to or cc[*].address, with * for all
	// others.
	Takes json.RawMessage `yaml:"takes"`
}

// Excerpt says what of a result is shown. At least one of its keys is given.
type Excerpt struct {
	// The members to show: keys joined by dots, which continue in each element of an array. Without it: all.
	Keep []string `yaml:"keep"`
	// The members to leave out, written in the same way.
	Drop []string `yaml:"drop"`
	// How many elements of each array are shown, from the first. Without it: all.
	Top *int `yaml:"top" validate:"min=1"`
}

// Undo is a call that undoes another.
type Undo struct {
	// The function's name.
	Fn *string `yaml:"fn" validate:"min=1" needed:"yes"`
	// Its arguments, which may refer to $result.
	Args json.RawMessage `yaml:"args"`
}

// IdempotencyKey says how a key is sent. Exactly one of Header and Arg is given.
type IdempotencyKey struct {
	// The header of the HTTP request.
	Header *string `yaml:"header" validate:"min=1"`
	// The top-level argument.
	Arg *string `yaml:"arg" validate:"min=1"`
	// How long the service remembers a key. Without it: forever.
	TTL *time.Duration `yaml:"ttl" validate:"min=1s"`
}
