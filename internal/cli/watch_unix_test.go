//go:build unix

package cli_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// TestWatch checks that a chain runs again when its file is saved, in place or by renaming, when its input or a saved chain that it
// calls changes, and after a broken version. A chain that writes does not run. Without a
// terminal, too, the command says what it waits for. An interrupt ends the command with its exit status.
func TestWatch(t *testing.T) {
	t.Parallel()
	var called atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Add(1) }))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	clitest.Write(t, dir, "onecall.yaml", fmt.Sprintf("http: {allow: [%q], endpoints: {put: {method: POST, url: %q}}}\n",
		strings.TrimPrefix(server.URL, "http://"), server.URL))
	clitest.Write(t, dir, "in.json", `{"n": 1}`)
	clitest.Write(t, dir, "a.chain.json", `{"steps":[{"expr":"$input.n"}]}`)
	if err := os.Mkdir(filepath.Join(dir, "chains"), 0o700); err != nil {
		t.Fatal(err)
	}
	clitest.Write(t, dir, "chains/sub.chain.json", `{"steps":[{"expr":"5"}]}`)
	cmd := clitest.Command(t, dir, "run", "--watch", "--lite", "a.chain.json", "--input", "@in.json")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(clitest.TooLong, func() { _ = cmd.Process.Kill() }).Stop() // a missed change ends the test
	lines := bufio.NewReader(stdout)
	for i, save := range []struct {
		file, text string
		rename     bool
		want       string
	}{
		{"", "", false, `1`},
		{"a.chain.json", `{"steps":[{"expr":"$input.n + 1"}]}`, false, `2`},
		{"a.chain.json", `{"steps":[{"expr":"$input.n + 2"}]}`, true, `3`},
		{"in.json", `{"n": 10}`, true, `12`},
		{"a.chain.json", `{"steps":[`, false, `{"ok":false,"error":{"code":"compile","message":"1 fault","faults":[{"code":"bad_json",`},
		{"a.chain.json", `{"steps":[{"fn":"http.put"}]}`, true,
			`{"ok":false,"error":{"code":"compile","message":"1 fault","faults":[{"code":"denied","step":0,"at":"/steps/0/fn",` +
				`"message":"http.put may write, and --watch runs a chain again at each save: leave out --watch, or add --dry-run, which shows the plan"}`},
		{"a.chain.json", `{"steps":[{"fn":"chain.sub"}]}`, true, `5`},
		{"chains/sub.chain.json", `{"steps":[{"expr":"6"}]}`, true, `6`},
	} {
		switch path := filepath.Join(dir, save.file); {
		case save.rename:
			clitest.Write(t, dir, "saved~", save.text)
			if err := os.Rename(filepath.Join(dir, "saved~"), path); err != nil {
				t.Fatal(err)
			}
		case save.file != "":
			clitest.Write(t, dir, save.file, save.text)
		}
		if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, save.want) {
			t.Fatalf("save %d: got %q, %v; want %s", i, line, err, save.want)
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if got := clitest.ExitCode(cmd.Wait()); got != "130" {
		t.Errorf("exit status %s, want 130", got)
	}
	if !strings.Contains(stderr.String(), "waiting for a change of a.chain.json; ^C ends") {
		t.Errorf("stderr does not say what the command waits for: %s", stderr.String())
	}
	if called.Load() > 0 {
		t.Errorf("%d writes, want none", called.Load())
	}
}
