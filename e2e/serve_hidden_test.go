//go:build e2e && unix

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHiddenFunctions checks that a server over HTTP logs how many functions its clients do not see, and which key changes that. It
// logs nothing if clients see all or have tokens.
func TestHiddenFunctions(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		"functions: {text.replace: {effect: write}}\n": "7 of 20 functions are " +
			"not shown to clients over HTTP, whose tier is read: access: {http: read_write} shows all",
		"functions: {text.replace: {tier: admin}, text.match: {effect: write}, 'http.*': {hide: true}}\n": "7 of 18 functions are " +
			"not shown to clients over HTTP, whose tier is read: access: {http: admin} shows all",
		"functions: {text.replace: {effect: write}}\naccess: {http: read_write}\n": "",
	} {
		t.Run(config, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "onecall.yaml")
			if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			s := serveHTTP(t, path)
			if want != "" {
				waitForLog(t, s.stderr, want, 1)
				return
			}
			stateless(t, s.url).ready(t, 11)
			if got := s.stderr.String(); strings.Contains(got, "not shown") {
				t.Errorf("the log reports hidden functions: %s", got)
			}
		})
	}
}
