package egress

import (
	"net/netip"
	"slices"
	"strconv"

	"code.dny.dev/ssrf"

	"github.com/onecall-mcp/onecall/fault"
)

// special refuses all special-purpose addresses in IANA's registries, everything that is not global unicast, and Azure's metadata
// service, which has a public address.
var special = ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(netip.MustParsePrefix("168.63.129.16/32")))

// private are the ranges for one's own hosts: private networks (RFC 1918, RFC 4193), loopback, and the range of carriers and
// overlay networks (RFC 6598).
var private = prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "127.0.0.0/8", "::1/128", "100.64.0.0/10")

// metadata are the metadata services of clouds within these ranges, which hand out credentials: AWS, Google, Alibaba.
var metadata = prefixes("fd00:ec2::/32", "fd20:ce::254/128", "100.100.100.200/32")

func prefixes(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		list[i] = netip.MustParsePrefix(text)
	}
	return list
}

func contains(list []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// checkResolved checks the address (ip:port) that an allowed host resolved to, before the connection is made. The denied error does not
// show the address.
func (r *Rules) checkResolved(host, resolved string) error {
	endpoint, err := netip.ParseAddrPort(resolved)
	if err != nil {
		return fault.New(fault.Denied, "the address of %s could not be read", host)
	}
	ip := endpoint.Addr().Unmap()
	if special.SafeAddr(ip) == nil {
		return nil
	}
	if literal, err := netip.ParseAddr(host); err == nil {
		if literal.Unmap() == ip { // an entry names that very address; otherwise allows would have refused it
			return nil
		}
	} else if r.names(host, strconv.Itoa(int(endpoint.Port()))) && mayBePrivate(host, ip) {
		return nil
	}
	return fault.New(fault.Denied, "%s leads to an address that is not public; such an address is reached only where the configuration names "+
		"the host exactly (http.allow, or the URL of a source), a link-local or otherwise special one only where it names the "+
		"address itself", host)
}

// mayBePrivate reports whether a host that the configuration names may have this private address.
func mayBePrivate(host string, ip netip.Addr) bool {
	return contains(private, ip) && !contains(metadata, ip) && (host != "localhost" || ip.IsLoopback())
}
