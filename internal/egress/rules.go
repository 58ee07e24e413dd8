// Package egress decides which hosts onecall may call, and makes the connections to them. One set of Rules is asked
// three times: about the URL of a request, about the URL of every redirect, and about the address that a host name
// resolved to when the connection is made, so that neither a redirect nor a changing DNS answer leads to a private
// network. It knows nothing of functions or MCP.
package egress

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// Rules say which hosts may be called. They do not change, and may be used by many goroutines; the zero value and nil
// allow none.
//
// A private address (of a private network, loopback, or shared by carriers) is reached only under a host that the
// configuration names exactly: by its name, not a wildcard, or by that address. Link-local addresses, the metadata
// services of clouds and every other special address are reached only where the configuration names that very address.
type Rules struct {
	named  []named
	public bool // any public host
}

// named is one host, or all below one: "" for scheme or port means any of the schemes, and the scheme's own port.
type named struct {
	scheme, host, port string
	below              bool // any name below host, not host itself
}

// Parse reads hosts as a configuration lists them. An entry is `host`, `host:port`, `*.example.com` (every name below
// example.com, not itself) or one of these after `http://` or `https://`, which then excludes the other scheme. Without
// a port the scheme's own is meant (80, 443). Every entry that is none of these gives a bad_request with At "/N"; the
// rules hold the others.
func Parse(entries []string) (*Rules, []*fault.Error) {
	r := &Rules{named: make([]named, 0, len(entries))}
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
		r.named = append(r.named, n)
	}
	return r, faults
}

// shown is an entry as an error may show it: what stands before an @ may be a password.
func shown(entry string) string {
	if at := strings.LastIndexByte(entry, '@'); at >= 0 {
		entry = "…" + entry[at:]
	}
	if query := strings.IndexAny(entry, "?#"); query >= 0 {
		entry = entry[:query+1] + "…"
	}
	return fault.Clip(entry, 100)
}

func parseEntry(entry string) (n named, problem string) {
	host := entry
	if scheme, rest, found := strings.Cut(entry, "://"); found {
		n.scheme, host = strings.ToLower(scheme), rest
		if defaultPorts[n.scheme] == "" {
			return n, "only http and https are supported"
		}
	}
	if strings.ContainsAny(host, "/?#@ ") {
		return n, "it must be a host alone"
	}
	if rest, found := strings.CutPrefix(host, "*."); found {
		host, n.below = rest, true
	}
	if strings.Contains(host, "*") {
		return n, "a * stands only at the start, before a dot"
	}
	// An IPv6 address may stand without brackets where no port follows.
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

// Open gives rules that allow any public host, and no private address. Naming adds the hosts that may be private.
func Open() *Rules { return &Rules{public: true} }

// Naming gives rules that also allow the hosts of these URLs, each with its scheme and port, because the configuration
// names them; what follows the host in a URL does not matter. bad_request for what is no such URL; the message shows
// nothing of it.
func (r *Rules) Naming(urls ...string) (*Rules, error) {
	more := &Rules{}
	if r != nil {
		more.named, more.public = slices.Clone(r.named), r.public
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
		more.named = append(more.named, named{scheme: to.scheme, host: to.host, port: to.port})
	}
	return more, nil
}

// Check decides on the URL of a request: bad_arguments for one that cannot be called, denied where its host is not
// allowed. The messages show the host and nothing else of it. The address that the host resolves to is looked at when
// the connection is made.
func (r *Rules) Check(u *url.URL) error {
	to, problem := parseTarget(u)
	if problem != "" {
		return fault.New(fault.BadArguments, "%s", problem)
	}
	if !r.allows(to) {
		return fault.New(fault.Denied, "calls to %s are not allowed: name the host in the configuration (http.allow for http.*, baseUrl for an OpenAPI service)", to)
	}
	return nil
}

func (r *Rules) allows(t target) bool {
	switch {
	case r == nil:
		return false
	case slices.ContainsFunc(r.named, func(n named) bool { return n.matches(t) }):
		return true
	}
	// An address is looked at here already: its owner shall hear that it is not allowed, not where it leads.
	ip, err := netip.ParseAddr(t.host)
	return r.public && (err != nil || special.SafeAddr(ip) == nil)
}

func (n named) matches(t target) bool {
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

// names tells whether an entry names a host exactly, seen from a connection, which knows a port and no scheme.
func (r *Rules) names(host, port string) bool {
	if r == nil {
		return false
	}
	for scheme := range defaultPorts {
		to := target{scheme, host, port}
		if slices.ContainsFunc(r.named, func(n named) bool { return !n.below && n.matches(to) }) {
			return true
		}
	}
	return false
}
