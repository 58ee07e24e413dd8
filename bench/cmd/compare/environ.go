package main

import (
	"os"
	"slices"
	"strings"
)

// passedVariables lists the environment variables that this program and its child processes may see, besides ONECALL_TEST_*. The names are
// in upper case, but match in any case. All other variables are dropped, because child processes run third-party packages, which must not
// see tokens or keys.
var passedVariables = []string{
	"PATH", "HOME", "USER", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "CI", "XDG_CACHE_HOME",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "NPM_CONFIG_REGISTRY",
	"NPM_CONFIG_CACHE", "GOROOT", "GOPATH", "GOBIN", "GOCACHE", "GOMODCACHE", "GOTMPDIR", "GOFLAGS", "GOPROXY", "GOSUMDB", "GONOSUMDB",
	"GONOPROXY", "GOPRIVATE", "GOTOOLCHAIN", "GOMAXPROCS", "CGO_ENABLED", "CC",
}

// variablesToDrop returns the names of the variables in environ that this program and its child processes must not see.
func variablesToDrop(environ []string) (names []string) {
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		upper := strings.ToUpper(name)
		if name != "" && !slices.Contains(passedVariables, upper) && !strings.HasPrefix(upper, "ONECALL_TEST_") {
			names = append(names, name)
		}
	}
	return names
}

// dropVariables removes all but the passed variables from this program's environment, which child processes inherit.
func dropVariables() {
	for _, name := range variablesToDrop(os.Environ()) {
		_ = os.Unsetenv(name) // cannot fail: the name comes from the environment
	}
}
