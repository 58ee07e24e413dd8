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

// Options describe one server: a Command to start, or a URL to call. What they hold is taken as it stands: variables of
// the environment are filled in by whoever reads the configuration.
type Options struct {
	// Name is the source's name: the tool get of the source files is the function files.get. Letters, digits, _ and -, at
	// most 64.
	Name string

	// Command is the program of a server that speaks over stdio, looked up in PATH (that of Env, if it has one) unless it
	// holds a separator. It is run without a shell, in Dir ("": the working directory), and its environment is Env on top
	// of the few variables that environ.go names, not that of onecall.
	Command string
	Args    []string
	Env     map[string]string
	Dir     string

	// URL is the endpoint of a server behind HTTP. Headers go with every request to its host, and to no other; they never
	// replace one that the protocol sets. SSE asks for the HTTP+SSE transport of 2024-11-05. HTTPClient makes the
	// requests; nil: one of the source's own, on the settings of http.DefaultTransport. It must not limit the time of a
	// whole request, as an answer may be a long stream, and must heed the contexts of requests at once. OAuth, if not nil,
	// gives the tokens for requests (not with SSE).
	URL        string
	Headers    map[string]string
	SSE        bool
	HTTPClient *http.Client
	OAuth      auth.OAuthHandler

	// Names says how the names of tools are read as a resource and an action (steps.Spec.Path): resource_action
	// (device_list), action_resource (list_devices), whole. "": found out from the first list.
	Names string

	// Lazy: the server is started by the first call, if its list of tools is known from CacheFile; if not, it is started
	// once to list them. CacheFile is rewritten after every start; "": nothing is kept between runs. It holds tool
	// definitions, and of the options the names of variables and headers, never their values.
	Lazy      bool
	CacheFile string

	// Concurrency is how many calls of tools are under way at the server at once. Others wait, for no
	// more calls of each other caller than that. Processes of links have one client each, and no such bound. 0: none.
	Concurrency int

	StartTimeout    time.Duration // from the start to the list of tools; 0: 30 s
	MaxMessageBytes int64         // of one message of the server; 0: 65 MiB; one that is longer fails its own call only

	// MaxLinks bounds the sessions of links at a time, each of which is a process where the server speaks over stdio; 0: 64,
	// and 1,000 behind a URL. Beyond it the one that was not used for longest ends, and comes back at its next use: what the
	// server kept in it is lost.
	MaxLinks int

	// Protocol is the version of MCP to speak; "": the newest that the SDK and the server both know.
	Protocol string

	// AsProxy has the server told that its client can be asked (sampling, elicitation), so that it lists the tools that need
	// it. Those work in a Link whose client can do it; elsewhere what they ask is refused.
	AsProxy bool
	// Roots lets the clients of links choose the directories that the server works in, in the place of those that Args name:
	// servers take a client's roots for that. With AsProxy the server is told that it may ask for them.
	Roots bool

	ClientName, ClientVersion string // what the server is told; "": onecall, and 0

	// Warn gets what is odd but stops nothing: a tool that is listed twice, text on stdout that is no message. nil:
	// nobody listens. It may be called by several goroutines, and must return soon.
	Warn func(*fault.Error)
	// Log gets the lines that the server writes to stderr and its log messages outside of calls, at most 4,096 bytes
	// each. nil: they are dropped. It may be called by several goroutines, and must return soon: stderr waits for it.
	Log func(line string)
}

const (
	defaultStartTimeout    = 30 * time.Second
	defaultMaxMessageBytes = 65 << 20
	defaultMaxLinks        = 64
	defaultMaxRemoteLinks  = 1000
)

var goodName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// checked returns a copy with defaults; bad_request, with At the option's name in the spelling of configurations.
func (o *Options) checked() (Options, *fault.Error) {
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
	case !goodName.MatchString(c.Name):
		return bad("/name", "its name must be letters, digits, _ and -, 64 at most")
	case (c.Command == "") == (c.URL == ""):
		return bad("", "needs either a command (stdio) or a url (HTTP)")
	case c.URL == "" && (len(c.Headers) > 0 || c.SSE || c.OAuth != nil):
		return bad("/command", "headers, SSE and OAuth belong to a url, not to a command")
	case c.Names != "" && !slices.Contains(namings, c.Names):
		return bad("/names", "names is resource_action, action_resource or whole, not %s", quoted(c.Names))
	case c.Command == "" && (len(c.Args) > 0 || len(c.Env) > 0 || c.Dir != ""):
		return bad("/url", "args, env and a directory belong to a command, not to a url")
	case c.SSE && c.OAuth != nil:
		return bad("/url", "OAuth needs Streamable HTTP: leave SSE out")
	case c.Protocol != "" && !slices.Contains(protocol.Versions, c.Protocol):
		_, f := bad("/protocol", "unknown protocol version %s: use %s", quoted(c.Protocol), strings.Join(protocol.Versions, ", "))
		f.Available = protocol.Versions
		return Options{}, f
	case c.StartTimeout < 0 || c.MaxMessageBytes < 0 || c.MaxLinks < 0 || c.Concurrency < 0:
		return bad("", "times, sizes and concurrency must not be negative")
	case strings.ContainsRune(c.Command+c.Dir+strings.Join(c.Args, ""), 0):
		return bad("/command", "the command, its arguments and its directory must not hold NUL")
	}
	if c.URL != "" {
		// The parser's own message would repeat the URL, which may hold a secret.
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
	if c.MaxLinks == 0 && c.URL != "" {
		c.MaxLinks = defaultMaxRemoteLinks
	}
	c.MaxLinks = cmp.Or(c.MaxLinks, defaultMaxLinks)
	c.ClientName, c.ClientVersion = cmp.Or(c.ClientName, "onecall"), cmp.Or(c.ClientVersion, "0")
	return c, nil
}

// path is the path of the URL, in which servers of one host differ; "" without a URL.
func (o *Options) path() string {
	u, err := url.Parse(o.URL)
	if err != nil {
		return ""
	}
	return u.EscapedPath()
}

// where names the server in messages: the program, or the scheme and host. Arguments and paths may hold secrets.
func (o *Options) where() string {
	if o.URL == "" {
		return quoted(o.Command)
	}
	u, err := url.Parse(o.URL)
	if err != nil {
		return "its url"
	}
	return u.Scheme + "://" + u.Host
}
