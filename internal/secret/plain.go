package secret

import (
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strings"
)

var (
	shortNumber = regexp.MustCompile(`^[-+]?[0-9]{0,11}(\.[0-9]{0,11})?$`)
	// hostName matches a host with or without its port. Its last label is one that hosts really have, because a password may consist of
	// words and dots, too.
	hostName = regexp.MustCompile(`^(localhost|([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+(` +
		`com|org|net|io|dev|app|cloud|info|biz|edu|gov|int|mil|arpa|local|localhost|internal|lan|home|corp|test|example|svc|[a-z]{2}))(:[0-9]+)?$`)
)

// Plain reports whether a value is none that a secret has, whatever its name: a boolean, a number of fewer than 12 digits, a host, a URL
// without a user, or a path that exists.
func Plain(value string) bool {
	switch strings.ToLower(value) {
	case "true", "false", "yes", "no", "on", "off", "":
		return true
	}
	if shortNumber.MatchString(value) || hostName.MatchString(value) {
		return true
	}
	if _, err := netip.ParseAddr(value); err == nil {
		return true
	}
	if _, err := netip.ParseAddrPort(value); err == nil {
		return true
	}
	if u, err := url.Parse(value); err == nil && u.Scheme != "" && u.Host != "" {
		return u.User == nil
	}
	if !strings.ContainsAny(value, `/\`) {
		return false // of a bare word, nobody knows that it is a path
	}
	_, err := os.Stat(value)
	return err == nil
}
