//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestHiddenFunctions: a server over HTTP tells how many functions its clients do not see, and which key changes that; one whose
// clients see all, or have tokens, tells nothing.
func TestHiddenFunctions(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		"functions: {text.replace: {effect: write}}\n":                                                    "2 of 9 functions are not shown to clients over HTTP, whose tier is read: access: {http: read_write} shows all",
		"functions: {text.replace: {tier: admin}, text.match: {effect: write}, 'http.*': {hide: true}}\n": "2 of 7 functions are not shown to clients over HTTP, whose tier is read: access: {http: admin} shows all",
		"functions: {text.replace: {effect: write}}\naccess: {http: read_write}\n":                        "",
	} {
		t.Run(config, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "onecall.yaml")
			if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			s := serveHTTP(t, path)
			for late := time.Now().Add(tooLong); want != "" && !strings.Contains(s.stderr.String(), want) && time.Now().Before(late); {
				time.Sleep(10 * time.Millisecond)
			}
			if got := s.stderr.String(); !strings.Contains(got, want) || want == "" && strings.Contains(got, "not shown") {
				t.Errorf("%s", got)
			}
		})
	}
}
