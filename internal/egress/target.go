package egress

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// target is the destination of a URL in normal form: the host in lower case and ASCII, IP addresses in their shortest form, IPv4
// never inside IPv6, and always a port.
type target struct{ scheme, host, port string }

// defaultPorts also lists the allowed schemes.
var defaultPorts = map[string]string{"http": "80", "https": "443"}

// String returns the host, with the port unless it is the scheme's default.
func (t target) String() string {
	if t.port == defaultPorts[t.scheme] {
		if strings.Contains(t.host, ":") {
			return "[" + t.host + "]"
		}
		return t.host
	}
	return net.JoinHostPort(t.host, t.port)
}

// parseTarget returns the destination of u. problem is a sentence that shows nothing of the URL; "": none.
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

// normalHost returns the normal form of a host name or of an IP address without brackets. address reports whether it is an IP address.
// problem is as in parseTarget.
func normalHost(host string) (normal string, address bool, problem string) {
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.Zone() != "" {
			return "", true, "an address with a zone is not supported"
		}
		return ip.Unmap().String(), true, ""
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if strings.Trim(host, hostCharacters) != "" {
		// The library refuses underscores, which are common in internal names, so it gets only names that need it.
		ascii, err := idna.Lookup.ToASCII(host)
		if err != nil {
			return "", false, "the host name is not valid"
		}
		host = ascii
	}
	if host == "" || len(host) > 253 || strings.Contains(host, "..") || host[0] == '.' {
		return "", false, "the host name is not valid"
	}
	// Resolvers accept 127.1, 0x7f000001 and 2130706433 as IPv4 addresses.
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
