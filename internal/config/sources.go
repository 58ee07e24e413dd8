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

// SourceName makes a name valid for functions: each run of characters other than ASCII letters, digits, - and _ becomes one _.
func SourceName(name string) string {
	valid := invalidSourceBytes.ReplaceAllString(name, "_")
	return valid[:min(len(valid), MaxSourceName)]
}

// MCPServer is an MCP server as clients write it, and what onecall adds. Exactly one of Command and URL is given.
type MCPServer struct {
	// The program of a server over stdio. Exactly one of command and url.
	Command *string  `yaml:"command" expand:"text" validate:"min=1"`
	Args    []string `yaml:"args" expand:"arguments" scalars:"yes"`
	// Variables for the server, beside the few that it gets of onecall's own.
	Env map[string]string `yaml:"env" expand:"env" scalars:"yes"`
	// The folder to start in, relative to this file. Without it: the working directory.
	Cwd *string `yaml:"cwd" expand:"text" validate:"min=1"`

	// The endpoint of a server behind HTTP.
	URL *string `yaml:"url" also:"serverUrl httpUrl" expand:"url" validate:"min=1"`
	// Sent with every request to the server.
	Headers map[string]string `yaml:"headers" expand:"headers" scalars:"yes"`

	// The transport. Without it: stdio with a command, http (Streamable HTTP) with a url.
	Type *string `yaml:"type" also:"transport"` // once it is read: stdio, http or sse
	// true: the server is not started, and its variables need not be set.
	Disabled *bool `yaml:"disabled" default:"false"` // once it is read: also where enabled is false
	// The opposite of disabled.
	Enabled *bool `yaml:"enabled" default:"true"`
	// The tools to offer, by their names or patterns with *; without it, all.
	IncludeTools []string `yaml:"includeTools" also:"enabledTools tools"`
	// The tools to leave out.
	ExcludeTools []string `yaml:"excludeTools" also:"disabledTools"`

	// How groups and help read the names of its tools. Without it, found out from its first list of tools.
	Names *string `yaml:"names" validate:"oneof=resource_action action_resource whole"`
	// lazy: at the first call, where its tools are known from an earlier start.
	Start *string `yaml:"start" validate:"oneof=eager lazy" default:"eager"`
	// How long it may take from the start to the list of tools. npx and uvx have two minutes, as they may install the server first.
	StartTimeoutMs *int `yaml:"startTimeoutMs" validate:"min=1" default:"30000"`
	// The client that is registered for onecall where the server asks for a login. Without it, one is registered at the login.
	OAuth *OAuth `yaml:"oauth"`
	// How many calls are under way at once, of all callers; others wait, for no more calls of each other caller than that. Without it: as
	// many as there are.
	Concurrency *int `yaml:"concurrency" validate:"min=1"`
	// Lets clients choose the directories that the server works in, in place of those of its arguments: their roots are passed on, on
	// the surfaces flat and hybrid.
	Roots *bool `yaml:"roots" default:"false"`
}

// Off reports whether the server is disabled.
func (s *MCPServer) Off() bool {
	return Or(s.Disabled, false) || !Or(s.Enabled, true)
}

// OAuth is the client that the user registered at a server's authorization server.
type OAuth struct {
	ClientID *string `yaml:"clientId" expand:"text" validate:"min=1"`
	// By ${VAR} only.
	ClientSecret *string  `yaml:"clientSecret" expand:"credential"`
	Scopes       []string `yaml:"scopes"`
	// The port on 127.0.0.1 that the browser comes back to. Without it: any.
	CallbackPort *int `yaml:"callbackPort" validate:"min=1,max=65535"`
	// The issuer, where it is not the one that the server names.
	AuthServer *string `yaml:"authServer" also:"issuer" expand:"text" validate:"min=1"`
}

// OpenAPI is a service that an OpenAPI document describes.
type OpenAPI struct {
	// The document: OpenAPI 3.0 or 3.1, or Swagger 2.0. A URL, or a path relative to this file.
	Spec *string `yaml:"spec" expand:"text" validate:"min=1" needed:"yes"`
	// Where the service is, in place of the document's servers.
	BaseURL *string `yaml:"baseUrl" expand:"url" validate:"min=1"`
	// Sent with every request. A credential is written by ${VAR} only.
	Headers map[string]string `yaml:"headers" expand:"ownHeaders" scalars:"yes"`
	// Credentials by the name of the document's security scheme: one of value, username with password, clientId with clientSecret. Secrets
	// are written by ${VAR} only.
	Auth Table[Credential] `yaml:"auth"`
	// The functions to offer, without the source's name: resource.action, with * for any characters. Without it: all.
	Include []string `yaml:"include"`
	// The functions to leave out, likewise.
	Exclude []string `yaml:"exclude"`

	// How many calls are under way at once, of all callers; others wait, for no more calls of each other caller than that. Without it: as
	// many as there are.
	Concurrency *int `yaml:"concurrency" validate:"min=1"`
}

// HTTP is what http.* may do.
type HTTP struct {
	// The hosts that may be called: host, host:port or *.example.com, each also after http:// or https://.
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
	// Values may refer to $input. A credential is written by ${VAR} only.
	Headers map[string]string `yaml:"headers" expand:"ownHeaders" scalars:"yes"`
	// Values by name, which may refer to $input.
	Query map[string]json.RawMessage `yaml:"query" expand:"query"`
	// JSON, which may refer to $input.
	Body json.RawMessage `yaml:"body" expand:"value"`
	// The JSON Schema of the arguments.
	Input json.RawMessage `yaml:"input"`
	// The JSON Schema of the result.
	Output      json.RawMessage `yaml:"output"`
	Description *string         `yaml:"description"`
	// Without it, what follows from the method.
	Effect *string `yaml:"effect" validate:"oneof=read write destroy"`
	// true: it may be sent again though it writes.
	Idempotent *bool `yaml:"idempotent"`
	// body: the body alone; response: an object of status, headers and body.
	Result    *string `yaml:"result" validate:"oneof=body response" default:"body"`
	TimeoutMs *int    `yaml:"timeoutMs" validate:"min=1"`
}

// Function configures the functions whose names match a pattern.
type Function struct {
	Effect *string `yaml:"effect" validate:"oneof=read write destroy"`
	// The tier that a caller needs to use it.
	Tier *string `yaml:"tier" validate:"oneof=read read_write admin"`
	// true: nobody sees it.
	Hide *bool `yaml:"hide"`
	// Another whole name, for one function.
	Rename *string `yaml:"rename" validate:"min=1"`
	// When a result becomes a probe: auto, where it does not fit or is above results.probeAbove.
	Heavy *string `yaml:"heavy" validate:"oneof=auto always never" default:"auto"`
	// Arguments that hold where a call does not give them.
	Defaults json.RawMessage `yaml:"defaults" expand:"value"`
	// Further names of arguments: the name that is accepted, and the one that the function declares.
	Aliases     map[string]string `yaml:"aliases"`
	Description *string           `yaml:"description"`
	// Of one call, where the step says none.
	TimeoutMs *int `yaml:"timeoutMs" validate:"min=1"`
	// How long its answers may be given again; 0s is never.
	CacheTTL *time.Duration `yaml:"cacheTtl" validate:"min=0"`
	// Which of its calls need approval. Without it: as approve says.
	Approve *string `yaml:"approve" validate:"oneof=never destroy write"`
	// The call that takes one of this function back, where a step says nothing else.
	Undo *Undo `yaml:"undo"`
	// How the service is told that a call is a repetition, so that it can be made again after nobody knows how it ended.
	IdempotencyKey *IdempotencyKey `yaml:"idempotencyKey"`
}

// Undo is a call that takes another back.
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
	// How long the service knows a key. Without it: always.
	TTL *time.Duration `yaml:"ttl" validate:"min=1s"`
}
