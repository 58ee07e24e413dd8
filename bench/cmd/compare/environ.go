package main

import (
	"os"
	"slices"
	"strings"
)

// passedVariables are the environment variables that this program and its child processes may see, in upper case. Foreign packages get no
// tokens or keys.
var passedVariables = []string{
	"PATH", "HOME", "USER", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "CI", "XDG_CACHE_HOME",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "NPM_CONFIG_REGISTRY",
	"NPM_CONFIG_CACHE", "GOROOT", "GOPATH", "GOBIN", "GOCACHE", "GOMODCACHE", "GOTMPDIR", "GOFLAGS", "GOPROXY", "GOSUMDB", "GONOSUMDB",
	"GONOPROXY", "GOPRIVATE", "GOTOOLCHAIN", "GOMAXPROCS", "CGO_ENABLED", "CC",
	"SYSTEMROOT", "SYSTEMDRIVE", "PATHEXT", "COMSPEC", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PROGRAMFILES", "PROGRAMDATA",
}

// dropped returns the names of the variables that are not passed on.
func dropped(environ []string) (names []string) {
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		upper := strings.ToUpper(name)
		if name != "" && !slices.Contains(passedVariables, upper) && !strings.HasPrefix(upper, "ONECALL_TEST_") &&
			!strings.HasPrefix(upper, "ONECALL_COMPARE_") {
			names = append(names, name)
		}
	}
	return names
}

// dropEnvironment removes the variables that are not passed on from this program's environment, which child processes inherit.
func dropEnvironment() {
	for _, name := range dropped(os.Environ()) {
		_ = os.Unsetenv(name) // never fails for a name of the environment
	}
}
