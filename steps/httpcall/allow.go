package httpcall

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/idna"

	"github.com/onecall-mcp/onecall/fault"
)

// target is where a URL leads, in the one spelling in which targets are compared: the host in lower case and ASCII, an
// IP address in its shortest form and an IPv4 address never inside an IPv6 one, the port always said.
type target struct{ scheme, host, port string }

// defaultPorts are also the list of schemes.
var defaultPorts = map[string]string{"http": "80", "https": "443"}

// String is the host, with the port where that is not the scheme's own.
func (t target) String() string {
	if t.port == defaultPorts[t.scheme] {
		if strings.Contains(t.host, ":") {
			return "[" + t.host + "]"
		}
		return t.host
	}
	return net.JoinHostPort(t.host, t.port)
}

// parseTarget reads where u leads. Its errors are plain sentences about the URL that show nothing of it.
func parseTarget(u *url.URL) (t target, problem string) {
	t.scheme = u.Scheme
	switch {
	case defaultPorts[u.Scheme] == "":
		return t, "the URL must begin with http:// or https://"
	case u.User != nil:
		return t, "the URL must not hold a user or password: use the header Authorization"
	case u.Hostname() == "":
		return t, "the URL names no host"
	}
	if t.host, _, problem = normalHost(u.Hostname()); problem != "" {
		return t, problem
	}
	t.port = u.Port()
	if t.port == "" {
		t.port = defaultPorts[u.Scheme]
	}
	if t.port, problem = normalPort(t.port); problem != "" {
		return t, problem
	}
	return t, ""
}

// normalHost gives the spelling of target for a host name or an IP address without brackets.
func normalHost(host string) (normal string, address bool, problem string) {
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.Zone() != "" {
			return "", true, "an address with a zone is not supported"
		}
		return ip.Unmap().String(), true, ""
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if strings.Trim(host, hostCharacters) != "" {
		// The library refuses the underscore, which is common in names of internal services: it sees other names only.
		ascii, err := idna.Lookup.ToASCII(host)
		if err != nil {
			return "", false, "the host name is not valid"
		}
		host = ascii
	}
	if host == "" || len(host) > 253 || strings.Contains(host, "..") || host[0] == '.' {
		return "", false, "the host name is not valid"
	}
	// Resolvers read 127.1, 0x7f000001 or 2130706433 as IPv4 addresses.
	last := host[strings.LastIndexByte(host, '.')+1:]
	if _, err := strconv.ParseUint(last, 0, 64); err == nil || strings.Trim(last, "0123456789") == "" {
		return "", false, "the host looks like an IP address: write it as four decimal numbers"
	}
	return host, false, ""
}

const hostCharacters = "abcdefghijklmnopqrstuvwxyz0123456789-._"

func normalPort(port string) (normal, problem string) {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", "the port must be a number from 1 to 65535"
	}
	return strconv.FormatUint(n, 10), ""
}

// allowed is one entry of the configuration: "" for scheme or port means any of the schemes, and the scheme's own port.
type allowed struct {
	scheme, host, port string
	below              bool // any name below host, not host itself
}

type allowList []allowed

// parseAllowList reads the entries of the configuration.
func parseAllowList(entries []string) (allowList, error) {
	list := make(allowList, 0, len(entries))
	for i, entry := range entries {
		a, problem := parseAllowed(strings.TrimSpace(entry))
		if problem != "" {
			f := fault.New(fault.BadRequest, "%q is not a host: %s. Write host, host:port or *.example.com, optionally after http:// or https://",
				entry, problem)
			f.At = fault.Index("/allow", i)
			return nil, f
		}
		list = append(list, a)
	}
	return list, nil
}

func parseAllowed(entry string) (a allowed, problem string) {
	host := entry
	if scheme, rest, found := strings.Cut(entry, "://"); found {
		a.scheme, host = strings.ToLower(scheme), rest
		if defaultPorts[a.scheme] == "" {
			return a, "only http and https are supported"
		}
	}
	if strings.ContainsAny(host, "/?#@ ") {
		return a, "it must be a host alone"
	}
	if rest, found := strings.CutPrefix(host, "*."); found {
		host, a.below = rest, true
	}
	if strings.Contains(host, "*") {
		return a, "a * stands only at the start, before a dot"
	}
	// An IPv6 address may stand without brackets where no port follows.
	if _, err := netip.ParseAddr(host); err != nil {
		switch name, port, err := net.SplitHostPort(host); {
		case err == nil:
			if a.port, problem = normalPort(port); problem != "" {
				return a, problem
			}
			host = name
		case strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]"):
			host = host[1 : len(host)-1]
		}
	}
	var address bool
	if a.host, address, problem = normalHost(host); problem != "" {
		return a, problem
	}
	if address && a.below {
		return a, "a * cannot stand before an IP address"
	}
	return a, ""
}

// check is nil where the target is allowed, else denied.
func (l allowList) check(t target) error {
	for _, a := range l {
		if a.matches(t) {
			return nil
		}
	}
	return fault.New(fault.Denied, "calls to %s are not allowed: name the host in http.allow of the configuration", t)
}

func (a allowed) matches(t target) bool {
	if a.scheme != "" && a.scheme != t.scheme {
		return false
	}
	if a.port != t.port && (a.port != "" || t.port != defaultPorts[t.scheme]) {
		return false
	}
	if a.below {
		return strings.HasSuffix(t.host, "."+a.host)
	}
	return a.host == t.host
}
