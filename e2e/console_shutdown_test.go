//go:build e2e && unix

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// TestConsoleFinishesActs: a write that was begun on a page is finished at the first signal, by a server and by onecall console.
func TestConsoleFinishesActs(t *testing.T) {
	t.Parallel()
	const boss = "oc_token-of-the-boss"
	for name, open := range map[string]func(t *testing.T, folder string) (*httpServer, *consoleBrowser){
		"serve": func(t *testing.T, folder string) (*httpServer, *consoleBrowser) {
			s := serveHTTP(t, filepath.Join(folder, "onecall.yaml"), "--console")
			return s, s.browse(t, boss)
		},
		"console": startConsole,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			arrived, release := make(chan struct{}, 1), make(chan struct{})
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				arrived <- struct{}{}
				<-release
				fmt.Fprint(w, `{}`)
			}))
			t.Cleanup(service.Close)
			folder := t.TempDir()
			config := clitest.Write(t, folder, "onecall.yaml", fmt.Sprintf("http: {allow: [%q], endpoints: {send: {method: POST, url: %q}}}\n"+
				"access: {tokens: [{name: boss, sha256: %q, tier: admin, console: approve}]}\n",
				strings.TrimPrefix(service.URL, "http://"), service.URL, tokenHash(boss)))
			s, b := open(t, folder)
			_, page := b.get("playground")
			b.send(page, "playground", map[string]string{"do": "run", "text": `{"name":"slow","steps":[{"fn":"http.send"}]}`})
			await(t, arrived, "the call arrives")
			if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			waitForLog(t, s.stderr, "interrupt again to stop now", 1)
			close(release)
			if got := clitest.ExitCode(<-s.ended); got != "0" {
				t.Errorf("exit status %s, want 0: %s", got, s.stderr)
			}
			runs := clitest.Self(t, t.TempDir(), "runs", "--config", config)
			runs.Env = s.cmd.Env
			if out, err := runs.CombinedOutput(); err != nil || !regexp.MustCompile(`slow +ok `).Match(out) {
				t.Errorf("the run did not end well: %v: %s", err, out)
			}
		})
	}
}
