// Package egress decides which hosts onecall may call, and connects to them. Rules check the URL of a request, the URL of every
// redirect, and the address that a host name resolved to when the connection is made, so that neither redirects nor changing DNS
// answers lead to a private network. It knows nothing of functions or MCP.
package egress

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// Rules are the hosts that may be called. They are immutable and safe for concurrent use; the zero value and nil allow none.
//
// Private addresses (of private networks, loopback, or shared by carriers) are reached only under a host that the configuration
// names exactly: by its name, without a wildcard, or by that address. Link-local addresses, metadata services of clouds and other
// special addresses are reached only if the configuration names that very address.
type Rules struct {
	hosts  []hostRule
	public bool // any public host is allowed
}

// hostRule is one host, or all hosts below it. Scheme "": any; port "": the scheme's default.
type hostRule struct {
	scheme, host, port string
	below              bool // all hosts below host, but not host itself
}

// Parse parses the hosts of a configuration. An entry is `host`, `host:port`, `*.example.com` (every name below example.com, not
// itself) or one of these after `http://` or `https://`, which excludes the other scheme. Without a port the scheme's default is
// meant (80, 443). Every other entry is a bad_request with At "/N"; the rules contain the valid ones.
func Parse(entries []string) (*Rules, []*fault.Error) {
	r := &Rules{hosts: make([]hostRule, 0, len(entries))}
	var faults []*fault.Error
	for i, entry := range entries {
		n, problem := parseEntry(strings.TrimSpace(entry))
		if problem != "" {
			f := fault.New(fault.BadRequest, "%q is not a host: %s. Write host, host:port or *.example.com, optionally after http:// or https://",
				shown(entry), problem)
			f.At = fault.Index("", i)
			faults = append(faults, f)
			continue
		}
		r.hosts = append(r.hosts, n)
	}
	return r, faults
}

// shown returns an entry for an error, without what may be a password.
func shown(entry string) string {
	if at := strings.LastIndexByte(entry, '@'); at >= 0 {
		entry = "…" + entry[at:]
	}
	if query := strings.IndexAny(entry, "?#"); query >= 0 {
		entry = entry[:query+1] + "…"
	}
	return fault.Clip(entry, 100)
}

// parseEntry parses one entry of Parse. problem says what is wrong with it; "": nothing.
func parseEntry(entry string) (n hostRule, problem string) {
	host := entry
	if scheme, rest, ok := strings.Cut(entry, "://"); ok {
		n.scheme, host = strings.ToLower(scheme), rest
		if defaultPorts[n.scheme] == "" {
			return n, "only http and https are supported"
		}
	}
	if strings.ContainsAny(host, "/?#@ ") {
		return n, "it must be a host alone"
	}
	if rest, ok := strings.CutPrefix(host, "*."); ok {
		host, n.below = rest, true
	}
	if strings.Contains(host, "*") {
		return n, "a * stands only at the start, before a dot"
	}
	// An IPv6 address needs no brackets without a port.
	if _, err := netip.ParseAddr(host); err != nil {
		switch name, port, err := net.SplitHostPort(host); {
		case err == nil:
			if n.port, problem = normalPort(port); problem != "" {
				return n, problem
			}
			host = name
		case strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]"):
			host = host[1 : len(host)-1]
		}
	}
	var address bool
	if n.host, address, problem = normalHost(host); problem != "" {
		return n, problem
	}
	if address && n.below {
		return n, "a * cannot stand before an IP address"
	}
	return n, ""
}

// AnyPublic returns rules that allow any public host, and no private address. WithURLs adds hosts that may be private.
func AnyPublic() *Rules { return &Rules{public: true} }

// WithURLs returns rules that also allow the hosts of these URLs, each with its scheme and port, because the configuration names
// them. The rest of a URL does not matter. It fails with bad_request if a URL is invalid; the message shows nothing of the URL.
func (r *Rules) WithURLs(urls ...string) (*Rules, error) {
	more := &Rules{}
	if r != nil {
		more.hosts, more.public = slices.Clone(r.hosts), r.public
	}
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			return nil, fault.New(fault.BadRequest, "this is not a URL: write it whole, as https://host/path")
		}
		to, problem := parseTarget(u)
		if problem != "" {
			return nil, fault.New(fault.BadRequest, "%s", problem)
		}
		more.hosts = append(more.hosts, hostRule{scheme: to.scheme, host: to.host, port: to.port})
	}
	return more, nil
}

// Check checks the URL of a request: bad_arguments if it is invalid, denied if its host is not allowed. Messages show only the
// host. The resolved address is checked when the connection is made.
func (r *Rules) Check(u *url.URL) error {
	to, problem := parseTarget(u)
	if problem != "" {
		return fault.New(fault.BadArguments, "%s", problem)
	}
	if !r.allows(to) {
		return fault.New(fault.Denied, "calls to %s are not allowed: "+
			"name the host in the configuration (http.allow for http.*, baseUrl for an OpenAPI service)", to)
	}
	return nil
}

func (r *Rules) allows(t target) bool {
	switch {
	case r == nil:
		return false
	case slices.ContainsFunc(r.hosts, func(n hostRule) bool { return n.matches(t) }):
		return true
	}
	// Addresses are checked here, so that the message says that they are not allowed, not where they lead.
	ip, err := netip.ParseAddr(t.host)
	return r.public && (err != nil || special.SafeAddr(ip) == nil)
}

func (n hostRule) matches(t target) bool {
	if n.scheme != "" && n.scheme != t.scheme {
		return false
	}
	if n.port != t.port && (n.port != "" || t.port != defaultPorts[t.scheme]) {
		return false
	}
	if n.below {
		return strings.HasSuffix(t.host, "."+n.host)
	}
	return n.host == t.host
}

// names reports whether an entry names the host of a connection exactly. The scheme of a connection is not known: it tries both.
func (r *Rules) names(host, port string) bool {
	if r == nil {
		return false
	}
	for scheme := range defaultPorts {
		to := target{scheme, host, port}
		if slices.ContainsFunc(r.hosts, func(n hostRule) bool { return !n.below && n.matches(to) }) {
			return true
		}
	}
	return false
}
