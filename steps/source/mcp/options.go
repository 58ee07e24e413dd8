package mcp

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"golang.org/x/net/http/httpguts"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/protocol"
)

// Options describe one server: a Command to start or a URL to call. The values are used as they are; the reader of the
// configuration has already expanded variables.
type Options struct {
	// Name is the source's name: the tool get of the source files becomes the function files.get. Letters, digits, _ and -, at
	// most 64.
	Name string

	// Command is the program of a stdio server, looked up in PATH (that of Env, if set) unless it contains a separator. It runs without a
	// shell, in Dir ("": the working directory). Its environment is not onecall's: it is Env on top of the few variables in environ.go.
	Command string
	Args    []string
	Env     map[string]string
	Dir     string

	// URL is the endpoint of an HTTP server. Headers are sent with every request to its host and to no other; they never replace
	// headers of the protocol. SSE selects the HTTP+SSE transport of 2024-11-05. HTTPClient makes the requests; nil: a client
	// with the settings of http.DefaultTransport. It must not limit the duration of a request, because an answer may be a long
	// stream, and must return soon after the end of a request's context. OAuth, if not nil, provides access tokens (not with
	// SSE).
	URL        string
	Headers    map[string]string
	SSE        bool
	HTTPClient *http.Client
	OAuth      auth.OAuthHandler

	// Remedy is what the caller can do if the server refuses its credentials; "": a login, or other headers.
	Remedy string

	// Secrets are removed from what the server says. nil: the values of Headers, of the URL's parameters, and of those variables of Env that
	// have a secret's name or look like a key.
	Secrets []string

	// Names is how tool names are split into a resource and an action (steps.Spec.Path): resource_action (device_list),
	// action_resource (list_devices) or whole. "": detected from the first list.
	Names string

	// Lazy starts the server at the first call if CacheFile has its list of tools; without the list, it starts immediately. CacheFile is
	// rewritten after every start; "": nothing is stored. It contains tool definitions and the names of variables and headers, never their
	// values.
	Lazy      bool
	CacheFile string

	// Concurrency bounds the concurrent tool calls to the server. Further calls wait, at most this many per caller. Processes of
	// client sessions serve one client each and are not bounded. 0: unlimited.
	Concurrency int

	CallTimeout     time.Duration // the limit of a call for which nothing else sets one, put off by progress; 0: the server's
	StartTimeout    time.Duration // how long the server may take to list its tools; 0: 30 s
	MaxMessageBytes int64         // one message of the server; 0: 65 MiB; a longer one fails only its own call

	// MaxSessions bounds the connections of client sessions, each a process of its own over stdio; 0: 64, or 1,000 with a URL. Beyond that,
	// the connection that was idle longest is closed and opened again at its next use; the server loses its state.
	MaxSessions int

	// Protocol is the MCP version to use; "": the newest that the SDK and the server have in common.
	Protocol string

	// AsProxy declares that the client supports sampling and elicitation, so that servers list tools that need them. Only the client
	// of an UpstreamSession that declares them receives such requests; all others are refused.
	AsProxy bool
	// Roots lets the clients of sessions choose the server's directories, in place of those in Args. With AsProxy it also
	// declares roots to the server.
	Roots bool

	ClientName, ClientVersion string // sent to the server; "": onecall, and 0

	// Warn receives harmless problems, such as a tool that is listed twice. nil: they are dropped. It may be called concurrently
	// and must return soon.
	Warn func(*fault.Error)
	// Log receives lines of the server's stderr and its log messages outside of calls, at most 4,096 bytes each. nil: they are
	// dropped. It may be called concurrently and must return soon: stderr waits for it.
	Log func(line string)
}

const (
	defaultStartTimeout      = 30 * time.Second
	defaultMaxMessageBytes   = 65 << 20
	defaultMaxSessions       = 64
	defaultMaxRemoteSessions = 1000
)

var validName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// withDefaults returns a checked copy with defaults. Its errors are bad_request; At is the option's name in the configuration.
func (o *Options) withDefaults() (Options, *fault.Error) {
	var c Options
	if o != nil {
		c = *o
	}
	bad := func(at, format string, args ...any) (Options, *fault.Error) {
		f := fault.New(fault.BadRequest, "MCP server "+quoted(c.Name)+": "+format, args...)
		f.At = at
		return Options{}, f
	}
	switch {
	case !validName.MatchString(c.Name):
		return bad("/name", "its name must be letters, digits, _ and -, 64 at most")
	case (c.Command == "") == (c.URL == ""):
		return bad("", "needs either a command (stdio) or a url (HTTP)")
	case c.URL == "" && (len(c.Headers) > 0 || c.SSE || c.OAuth != nil):
		return bad("/command", "headers, SSE and OAuth belong to a url, not to a command")
	case c.Names != "" && !slices.Contains(nameForms, c.Names):
		return bad("/names", "names is resource_action, action_resource or whole, not %s", quoted(c.Names))
	case c.Command == "" && (len(c.Args) > 0 || len(c.Env) > 0 || c.Dir != ""):
		return bad("/url", "args, env and a directory belong to a command, not to a url")
	case c.SSE && c.OAuth != nil:
		return bad("/url", "OAuth needs Streamable HTTP: leave SSE out")
	case c.Protocol != "" && !slices.Contains(protocol.Versions, c.Protocol):
		_, f := bad("/protocol", "unknown protocol version %s: use %s", quoted(c.Protocol), strings.Join(protocol.Versions, ", "))
		f.Available = protocol.Versions
		return Options{}, f
	case c.StartTimeout < 0 || c.CallTimeout < 0 || c.MaxMessageBytes < 0 || c.MaxSessions < 0 || c.Concurrency < 0:
		return bad("", "times, sizes and concurrency must not be negative")
	case strings.ContainsRune(c.Command+c.Dir+strings.Join(c.Args, ""), 0):
		return bad("/command", "the command, its arguments and its directory must not hold NUL")
	}
	if c.URL != "" {
		// The parser's message would repeat the URL, which may contain a secret.
		u, err := url.Parse(c.URL)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			return bad("/url", "its url must be http:// or https:// with a host")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(c.Headers[name]) {
			return bad("/headers", "the header %s is not one that HTTP can send", quoted(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(c.Env[name], 0) {
			return bad("/env", "the variable %s is not one that a process can be given", quoted(name))
		}
	}
	c.Args, c.Env, c.Headers = slices.Clone(c.Args), maps.Clone(c.Env), maps.Clone(c.Headers)
	c.StartTimeout = cmp.Or(c.StartTimeout, defaultStartTimeout)
	c.MaxMessageBytes = cmp.Or(c.MaxMessageBytes, int64(defaultMaxMessageBytes))
	if c.MaxSessions == 0 && c.URL != "" {
		c.MaxSessions = defaultMaxRemoteSessions
	}
	c.MaxSessions = cmp.Or(c.MaxSessions, defaultMaxSessions)
	c.ClientName, c.ClientVersion = cmp.Or(c.ClientName, "onecall"), cmp.Or(c.ClientVersion, "0")
	return c, nil
}

// path returns the path of the URL, which distinguishes servers on one host; "": no URL.
func (o *Options) path() string {
	u, err := url.Parse(o.URL)
	if err != nil {
		return ""
	}
	return u.EscapedPath()
}

// address names the server in messages: its program, or scheme and host. Arguments and paths may contain secrets.
func (o *Options) address() string {
	if o.URL == "" {
		return quoted(o.Command)
	}
	u, err := url.Parse(o.URL)
	if err != nil {
		return "its url"
	}
	return u.Scheme + "://" + u.Host
}
