// Package loopback decides which hosts are this machine, for itself alone.
package loopback

import (
	"net/netip"
	"strings"
)

// Is reports whether a host, without a port, is this machine's own: localhost and the names below it (RFC 6761, section 6.3), in any
// case and with or without a dot at the end, and loopback addresses, with or without brackets. Unspecified addresses (0.0.0.0, ::)
// are not: who listens on one serves other machines too.
func Is(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	address, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil && address.Unmap().IsLoopback()
}
