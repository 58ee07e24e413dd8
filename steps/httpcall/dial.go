package httpcall

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"code.dny.dev/ssrf"

	"github.com/onecall-mcp/onecall/fault"
)

// maxHeaderBytes bounds the header of a response.
const maxHeaderBytes = 64 << 10

// newTransport makes connections whose resolved address was checked. Proxies of the environment are not used: a proxy
// would resolve the name itself, past the check.
func newTransport(dialer *net.Dialer) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return dial(ctx, *dialer, network, address)
		},
		ForceAttemptHTTP2:      true,
		MaxResponseHeaderBytes: maxHeaderBytes,
		MaxIdleConnsPerHost:    16,
		MaxIdleConns:           100,
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    dialTimeout,
		ExpectContinueTimeout:  time.Second,
	}
}

// dial connects to address after each address that its host resolves to has passed checkResolved.
func dial(ctx context.Context, dialer net.Dialer, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	dialer.ControlContext = func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
		return checkResolved(host, resolved)
	}
	return dialer.DialContext(ctx, network, address)
}

// special refuses every range of IANA's registries of special-purpose addresses, what is not global unicast, and the
// one metadata service that lives on a public address (Azure's).
var special = ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(netip.MustParsePrefix("168.63.129.16/32")))

// checkResolved decides on the address that is about to be connected to for a host that is allowed. A host that is
// itself an IP address was allowed by an entry that is that address, and `localhost` by one that says so.
func checkResolved(host, resolved string) error {
	endpoint, err := netip.ParseAddrPort(resolved)
	if err != nil {
		return fault.New(fault.Denied, "the address of %s could not be read", host)
	}
	ip := endpoint.Addr().Unmap()
	if named, err := netip.ParseAddr(host); err == nil && named.Unmap() == ip {
		return nil
	}
	if host == "localhost" && ip.IsLoopback() {
		return nil
	}
	if special.SafeAddr(ip) != nil {
		return fault.New(fault.Denied, "%s leads to an address that is not public; such an address is reached only where "+
			"http.allow of the configuration names the address itself", host)
	}
	return nil
}
