// Package login logs in to MCP servers that ask for OAuth 2.1, keeps what they gave, and hands it to the connections. The
// flow is that of the MCP authorization specification of 2025-11-25: protected resource metadata (RFC 9728) names the
// authorization server, whose metadata (RFC 8414 or OpenID Connect discovery) names its endpoints; the client is one that
// the user configured, or is registered on the spot (RFC 7591); the code comes over a loopback redirect (RFC 8252), is
// protected by PKCE with S256 (RFC 7636) and by the issuer (RFC 9207), and is exchanged for tokens that are bound to the
// server (RFC 8707).
//
// Login is what a person starts on the command line. Handler is what a connection uses: it gives the stored token and
// renews it, and never opens a browser. Everything that a server says is taken as coming from an enemy: addresses, sizes,
// redirects and words are checked, and no token stands in an error.
package login

import (
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

// Bounds of one login and of one request to a server.
const (
	loginTimeout   = 10 * time.Minute // a person reads, types a password, finds a second factor
	requestTimeout = 30 * time.Second
	renewTimeout   = time.Minute // waiting for another process's renewal, and one's own
	maxAnswer      = 1<<20 - 1   // bytes of any body that a server answers: one less than where the libraries cut without a word
	maxToken       = 16 << 10    // bytes of one token
)

// Options say which server is meant and how to be its client. Source, ServerURL, Store and HTTPClient must be given.
type Options struct {
	Source    string // the server's name in the configuration, as messages show it
	ServerURL string // the MCP endpoint: https, or http on a loopback host

	// ClientID is the client that the user registered at the authorization server; "" registers one at each login. An
	// https URL with a path is a client ID metadata document: it is used where the authorization server says that it
	// reads them, else a client is registered.
	ClientID     string
	ClientSecret string // of ClientID; "" for a public client. It is never stored

	// Scopes are what to ask for, exactly. Empty: what the server names, with offline_access where that is offered.
	Scopes []string

	Store      Store
	HTTPClient *http.Client // decides which hosts may be reached; its redirects and bodies are bounded here
	ClientName string       // shown to the user by the authorization server; "": onecall

	// RedirectPort is the port on 127.0.0.1 that the authorization server sends the browser to; 0: any free one. A
	// configured client whose authorization server compares redirect URIs with their port needs a fixed one.
	RedirectPort int

	// AuthServer is the issuer to use instead of the first that the server names; "": that one.
	AuthServer string
}

// UI is the person who logs in.
type UI interface {
	// Open shows a URL: in a browser, or by printing it. After an error the URL is given to Notice instead.
	Open(url string) error
	// Notice tells how the login goes, a sentence at a time.
	Notice(text string)
}

// server is the checked form of the options: o is a copy, endpoint the one spelling of the server's URL.
type server struct {
	o        Options
	endpoint string
	loopback bool // the server itself is on this machine: then its authorization server may be too
	client   *client
}

// newServer checks the options; bad_request, or denied for a URL that OAuth must not be used with.
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
	if problem := refused(u, s.loopback); problem != "" {
		return nil, fault.New(fault.Denied, "server %q: tokens are not sent to its URL: %s", o.Source, problem)
	}
	s.endpoint = canonical(u)
	if o.AuthServer != "" {
		if problem := refusedText(o.AuthServer, s.loopback); problem != "" {
			return nil, fault.New(fault.Denied, "server %q: the configured authorization server is refused: %s", o.Source, problem)
		}
	}
	s.client = newClient(o.HTTPClient, s.loopback)
	return s, nil
}

// key is where the store keeps the login: by the name and by the URL, so that a changed URL never finds the old tokens
// and two configurations with the same name do not meet. It is fit to be a file's name.
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

// remedy is what the messages end with.
func (s *server) remedy() string { return "run `onecall auth login " + s.o.Source + "`" }

// deny is a refusal of which the server's name is part.
func (s *server) deny(format string, args ...any) *fault.Error {
	f := fault.New(fault.Denied, format, args...)
	f.Message = "server \"" + s.o.Source + "\": " + f.Message
	return f
}

// canonical is the spelling in which server URLs are compared: scheme and host in lower case, no default port, no
// fragment, no bare slash as path (the canonical URI of the MCP specification).
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

// refused says why u is no address for tokens or for what leads to them; "" when it is one. Only where the MCP server is
// on this machine may http be used, and may anything else on this machine be named: a server elsewhere must not direct
// onecall to what listens here.
func refused(u *url.URL, isLocal bool) string {
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

// refusedText is refused for a URL that is still text, which must not have a fragment (RFC 6749, sections 3.1 and 3.2;
// RFC 8414, section 2).
func refusedText(text string, isLocal bool) string {
	u, err := url.Parse(text)
	if err != nil {
		return "it is not a valid URL"
	}
	if strings.Contains(text, "#") {
		return "it has a fragment"
	}
	return refused(u, isLocal)
}

// isVague reports whether a host may lead to this machine without naming it: names below localhost, which resolvers take for it or
// not, and unspecified addresses.
func isVague(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	ip, err := netip.ParseAddr(host)
	return strings.HasSuffix(host, ".localhost") || err == nil && ip.Unmap().IsUnspecified()
}

// hostOf is the part of a checked URL that messages show.
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
