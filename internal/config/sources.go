package config

import (
	"encoding/json"
	"regexp"
	"time"
)

// Table is an object whose keys are names, in the order in which they are written.
type Table[T any] []Named[T]

// Named is one entry of a table.
type Named[T any] struct {
	Name   string // as written
	Config T
}

// Source is the name under which a server or document stands in the names of functions.
func (n Named[T]) Source() string { return SourceName(n.Name) }

var unfitForSource = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// MaxSourceName is the length of the longest name of a source.
const MaxSourceName = 64

// SourceName makes a name fit for functions: what is neither a letter or digit of ASCII nor - or _ becomes one _.
func SourceName(name string) string {
	fit := unfitForSource.ReplaceAllString(name, "_")
	return fit[:min(len(fit), MaxSourceName)]
}

// MCPServer is an MCP server as clients write it, and what onecall adds. Exactly one of Command and URL is given.
type MCPServer struct {
	Command *string           `yaml:"command" expand:"text" validate:"min=1"`
	Args    []string          `yaml:"args" expand:"arguments" scalars:"yes"`
	Env     map[string]string `yaml:"env" expand:"env" scalars:"yes"`
	Cwd     *string           `yaml:"cwd" expand:"text" validate:"min=1"` // relative to the configuration's file; nil: the working directory

	URL     *string           `yaml:"url" also:"serverUrl httpUrl" expand:"url" validate:"min=1"`
	Headers map[string]string `yaml:"headers" expand:"headers" scalars:"yes"`

	Type         *string  `yaml:"type" also:"transport"` // once it is read: stdio, http or sse
	Disabled     *bool    `yaml:"disabled"`              // once it is read: also where enabled is false
	Enabled      *bool    `yaml:"enabled"`
	IncludeTools []string `yaml:"includeTools" also:"enabledTools tools"`
	ExcludeTools []string `yaml:"excludeTools" also:"disabledTools"`

	Names          *string `yaml:"names" validate:"oneof=resource_action action_resource whole"`
	Start          *string `yaml:"start" validate:"oneof=eager lazy"`
	StartTimeoutMs *int    `yaml:"startTimeoutMs" validate:"min=1"`
	OAuth          *OAuth  `yaml:"oauth"`
	Concurrency    *int    `yaml:"concurrency" validate:"min=1"` // calls under way at once, of all callers
	Roots          *bool   `yaml:"roots"`                        // clients may choose the server's directories
}

// Off reports whether the server is not to be started.
func (s *MCPServer) Off() bool {
	return Or(s.Disabled, false) || !Or(s.Enabled, true)
}

// OAuth is the client that the user registered at a server's authorization server.
type OAuth struct {
	ClientID     *string  `yaml:"clientId" expand:"text" validate:"min=1"`
	ClientSecret *string  `yaml:"clientSecret" expand:"credential"`
	Scopes       []string `yaml:"scopes"`
	CallbackPort *int     `yaml:"callbackPort" validate:"min=1,max=65535"`
	AuthServer   *string  `yaml:"authServer" also:"issuer" expand:"text" validate:"min=1"`
}

// OpenAPI is a service that an OpenAPI document describes.
type OpenAPI struct {
	Spec    *string           `yaml:"spec" expand:"text" validate:"min=1"` // a URL, or a path relative to the configuration's file
	BaseURL *string           `yaml:"baseUrl" expand:"url" validate:"min=1"`
	Headers map[string]string `yaml:"headers" expand:"ownHeaders" scalars:"yes"`
	Auth    Table[Credential] `yaml:"auth"` // by the name of the security scheme
	Include []string          `yaml:"include"`
	Exclude []string          `yaml:"exclude"`

	Concurrency *int `yaml:"concurrency" validate:"min=1"` // calls under way at once, of all callers
}

// HTTP is what http.* may do.
type HTTP struct {
	Allow     []string        `yaml:"allow" expand:"text"`
	Endpoints Table[Endpoint] `yaml:"endpoints"`
}

// Endpoint is one HTTP request as a function. Query, Body, Input and Output are JSON, with numbers and the order of
// keys as they are written.
type Endpoint struct {
	Method      *string                    `yaml:"method" validate:"oneof=GET HEAD OPTIONS POST PUT PATCH DELETE"`
	URL         *string                    `yaml:"url" expand:"template" validate:"min=1"`
	Headers     map[string]string          `yaml:"headers" expand:"ownHeaders" scalars:"yes"`
	Query       map[string]json.RawMessage `yaml:"query" expand:"query"`
	Body        json.RawMessage            `yaml:"body" expand:"value"`
	Input       json.RawMessage            `yaml:"input"`
	Output      json.RawMessage            `yaml:"output"`
	Description *string                    `yaml:"description"`
	Effect      *string                    `yaml:"effect" validate:"oneof=read write destroy"`
	Idempotent  *bool                      `yaml:"idempotent"`
	Result      *string                    `yaml:"result" validate:"oneof=body response"`
	TimeoutMs   *int                       `yaml:"timeoutMs" validate:"min=1"`
}

// Function is what is said of the functions whose names fit a pattern.
type Function struct {
	Effect      *string           `yaml:"effect" validate:"oneof=read write destroy"`
	Tier        *string           `yaml:"tier" validate:"oneof=read read_write admin"`
	Hide        *bool             `yaml:"hide"`
	Rename      *string           `yaml:"rename" validate:"min=1"`
	Heavy       *string           `yaml:"heavy" validate:"oneof=auto always never"`
	Defaults    json.RawMessage   `yaml:"defaults" expand:"value"`
	Aliases     map[string]string `yaml:"aliases"`
	Description *string           `yaml:"description"`
	TimeoutMs   *int              `yaml:"timeoutMs" validate:"min=1"`
	CacheTTL    *time.Duration    `yaml:"cacheTtl" validate:"min=0"` // 0: never
}
