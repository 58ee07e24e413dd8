package main

import (
	"os"
	"slices"
	"strings"
)

// kept are the variables of the environment that this program and what it starts may see, in upper case. Tokens and keys are not for the
// packages of others.
var kept = []string{
	"PATH", "HOME", "USER", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "CI", "XDG_CACHE_HOME",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "NPM_CONFIG_REGISTRY",
	"NPM_CONFIG_CACHE", "GOROOT", "GOPATH", "GOBIN", "GOCACHE", "GOMODCACHE", "GOTMPDIR", "GOFLAGS", "GOPROXY", "GOSUMDB", "GONOSUMDB",
	"GONOPROXY", "GOPRIVATE", "GOTOOLCHAIN", "GOMAXPROCS", "CGO_ENABLED", "CC",
	"SYSTEMROOT", "SYSTEMDRIVE", "PATHEXT", "COMSPEC", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PROGRAMFILES", "PROGRAMDATA",
}

// dropped are the variables of an environment that are not kept.
func dropped(environ []string) (names []string) {
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		upper := strings.ToUpper(name)
		if name != "" && !slices.Contains(kept, upper) && !strings.HasPrefix(upper, "ONECALL_TEST_") &&
			!strings.HasPrefix(upper, "ONECALL_COMPARE_") {
			names = append(names, name)
		}
	}
	return names
}

// dropEnvironment takes what is not kept out of this program's environment, which all that it starts has.
func dropEnvironment() {
	for _, name := range dropped(os.Environ()) {
		_ = os.Unsetenv(name) // it is a name of the environment
	}
}
