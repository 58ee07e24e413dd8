// Package loopback decides which hosts are this machine's own and cannot be reached from others.
package loopback

import (
	"net/netip"
	"strings"
)

// Is reports whether a host, without a port, is this machine's own: localhost, in any case and with or without a dot at the end, and
// loopback addresses, with or without brackets. A name below localhost is not: resolvers may ask the network for it. Nor are
// unspecified addresses (0.0.0.0, ::): a program that listens on one serves other machines too.
func Is(host string) bool {
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	address, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil && address.Unmap().IsLoopback()
}
