// Package login logs in to MCP servers that require OAuth 2.1, stores the tokens, and provides them to connections. It follows
// the MCP authorization specification of 2025-11-25: protected resource metadata (RFC 9728) names the authorization server, whose
// metadata (RFC 8414 or OpenID Connect discovery) names its endpoints. The client is configured or registered at the login (RFC
// 7591). The code arrives over a loopback redirect (RFC 8252), is protected by PKCE with S256 (RFC 7636) and the issuer (RFC
// 9207), and is exchanged for tokens that are bound to the server (RFC 8707).
//
// Login is started by a person on the command line, Begin by a page of the program. Handler is used by connections: it provides and renews
// the stored token and never opens a browser. Personal is the same for the login of one caller of the program. Servers are not trusted:
// addresses, sizes, redirects and texts are checked, and errors never contain tokens.
package login

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/loopback"
)

// Limits of a login and of a request to a server.
const (
	loginTimeout   = 10 * time.Minute // a person may need to find a second factor
	requestTimeout = 30 * time.Second
	renewTimeout   = time.Minute // how long another process's renewal and our own may take together
	maxAnswer      = 1<<20 - 1   // bytes of a response body: one less than where the libraries truncate silently
	maxToken       = 16 << 10    // bytes of a token
)

// Options configure the login to one server. Source, ServerURL, Store and HTTPClient are required.
type Options struct {
	Source    string // the server's name in the configuration, for messages
	ServerURL string // the MCP endpoint: https, or http on a loopback host

	// ClientID is the client that the user registered at the authorization server; "": one is registered at each login. An https
	// URL with a path is a client ID metadata document; if the authorization server does not support those, a client is
	// registered.
	ClientID     string
	ClientSecret string // the secret of ClientID; "": a public client. It is never stored

	// Scopes are requested exactly as given. Empty: those that the server names, and offline_access if offered.
	Scopes []string

	Store      Store
	HTTPClient *http.Client // decides which hosts are reachable; this package bounds redirects and bodies
	ClientName string       // the name that the authorization server shows; "": onecall

	// RedirectPort is the port on 127.0.0.1 for the redirect; 0: any free one. A configured client needs a fixed port if its
	// authorization server compares the ports of redirect URIs.
	RedirectPort int

	// AuthServer is the issuer to use; "": the first that the server names.
	AuthServer string

	Direct bool   // the server is none of MCP, and is asked nothing: AuthServer is required, and tokens are bound to no resource
	Remedy string // what a person does to log in, for messages; "": runs `onecall auth login`
}

// UI talks to the person who logs in.
type UI interface {
	// Open opens a URL in a browser or prints it. After an error the URL is passed to Notice instead.
	Open(url string) error
	// Notice shows a sentence about the progress of the login.
	Notice(text string)
}

// server is a server with checked options.
type server struct {
	o        Options
	endpoint string // the canonical form of ServerURL
	loopback bool   // the server is on this machine, so its authorization server may be too
	client   *client
}

// newServer checks the options. Errors: bad_request, or denied for a URL that is unsafe for OAuth.
func newServer(o *Options) (*server, error) {
	if o == nil || o.Source == "" || o.Store == nil || o.HTTPClient == nil {
		return nil, fault.New(fault.BadRequest, "a login needs a source's name, a store and an HTTP client")
	}
	s := &server{o: *o}
	if s.o.ClientName == "" {
		s.o.ClientName = "onecall"
	}
	if o.RedirectPort < 0 || o.RedirectPort > 65535 {
		return nil, fault.New(fault.BadRequest, "server %q: the redirect port %d is not a port: use 0 (any) to 65535", o.Source, o.RedirectPort)
	}
	u, err := url.Parse(o.ServerURL)
	if err != nil {
		return nil, fault.New(fault.BadRequest, "server %q: its URL is not valid: correct it in the configuration", o.Source)
	}
	s.loopback = loopback.Is(u.Hostname())
	if problem := checkURL(u, s.loopback); problem != "" {
		return nil, fault.New(fault.Denied, "server %q: tokens are not sent to its URL: %s", o.Source, problem)
	}
	s.endpoint = canonical(u)
	if o.AuthServer != "" {
		if problem := checkURLText(o.AuthServer, s.loopback); problem != "" {
			return nil, fault.New(fault.Denied, "server %q: the configured authorization server is refused: %s", o.Source, problem)
		}
	}
	s.client = newClient(o.HTTPClient, s.loopback)
	return s, nil
}

// key returns the store's key of the login. It depends on name and URL, so that a changed URL never gets the old tokens and equal
// names in two configurations do not collide. It is a valid file name.
func (s *server) key() string {
	sum := sha256.Sum256([]byte(s.o.Source + "\n" + s.endpoint))
	name := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, s.o.Source)
	return name[:min(len(name), 64)] + "-" + hex.EncodeToString(sum[:8])
}

// remedy returns the advice to log in, for the end of a message.
func (s *server) remedy() string {
	return cmp.Or(s.o.Remedy, "run `onecall auth login "+s.o.Source+"`")
}

// deny returns a denied error that names the server.
func (s *server) deny(format string, args ...any) *fault.Error {
	f := fault.New(fault.Denied, format, args...)
	f.Message = "server \"" + s.o.Source + "\": " + f.Message
	return f
}

// canonical returns the form in which server URLs are compared: scheme and host in lower case, no default port, no fragment, no
// lone slash as path (the canonical URI of the MCP specification).
func canonical(u *url.URL) string {
	c := *u
	c.Scheme, c.Host = strings.ToLower(c.Scheme), strings.ToLower(c.Host)
	if port := c.Port(); (c.Scheme == "https" && port == "443") || (c.Scheme == "http" && port == "80") {
		c.Host = strings.TrimSuffix(c.Host, ":"+port)
	}
	if c.Path == "/" {
		c.Path, c.RawPath = "", ""
	}
	c.Fragment, c.RawFragment = "", ""
	return c.String()
}

// checkURL returns why u must not get tokens or lead to them; "": it may. URLs on this machine, which may begin with http, are allowed only
// if the MCP server itself is on this machine (isLocal): a remote server must not direct onecall to local services.
func checkURL(u *url.URL, isLocal bool) string {
	local := loopback.Is(u.Hostname())
	switch {
	case u.Hostname() == "", isVague(u.Hostname()):
		return "it names no host"
	case u.User != nil:
		return "it holds a user or a password"
	case u.Scheme != "https" && (u.Scheme != "http" || !local):
		return "it must begin with https:// (http:// only on a loopback host)"
	case local && !isLocal:
		return "it leads to this machine, and the server is elsewhere"
	}
	return ""
}

// checkURLText is checkURL for an unparsed URL, which must not have a fragment (RFC 6749, sections 3.1 and 3.2; RFC 8414, section
// 2).
func checkURLText(text string, isLocal bool) string {
	u, err := url.Parse(text)
	if err != nil {
		return "it is not a valid URL"
	}
	if strings.Contains(text, "#") {
		return "it has a fragment"
	}
	return checkURL(u, isLocal)
}

// isVague reports whether a host may mean this machine without being a loopback host: a name below localhost, which resolvers treat
// differently, or an unspecified address.
func isVague(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	ip, err := netip.ParseAddr(host)
	return strings.HasSuffix(host, ".localhost") || err == nil && ip.Unmap().IsUnspecified()
}

// hostOf returns the host of a checked URL for messages; "the authorization server" if the URL cannot be parsed.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "the authorization server"
	}
	if port := u.Port(); port != "" {
		return net.JoinHostPort(u.Hostname(), port)
	}
	return u.Host
}
