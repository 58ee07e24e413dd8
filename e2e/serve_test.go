//go:build e2e && unix

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// startShutdown terminates a server and waits until it refuses new calls.
func (p *stdioServer) startShutdown(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		id := fmt.Sprintf(`"late %d"`, n)
		p.write(t, p.chainRequest(id, "1"))
		m, _ := p.readAnswer(t, id)
		text := m.Get("result.content.0.text").String()
		if gjson.Get(text, "error.code").String() == "unavailable" {
			return
		}
		if text != "1" {
			t.Fatalf("a call during the shutdown: got %s, want 1 or unavailable", m.Raw)
		}
	}
}

// TestServeFinishesCalls checks that calls that run at the first signal are finished and answered.
func TestServeFinishesCalls(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}, 1), make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-release
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"done":true}`)
	}))
	t.Cleanup(service.Close)
	config := clitest.Write(t, t.TempDir(), "onecall.yaml", fmt.Sprintf("http: {allow: [%q]}\n", strings.TrimPrefix(service.URL, "http://")))
	p := startStdioServer(t, config)
	p.write(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":"slow","method":"tools/call","params":{"name":"chain",`+
		`"arguments":{"steps":[{"fn":"http.get","args":{"url":%q}}],"lite":true,"return":"$0.body"}}}`, service.URL))
	await(t, arrived, "the call arrives")
	p.startShutdown(t)
	waitForLog(t, p.stderr, "interrupt again to stop now", 1)
	hangUp(t, p.cmd) // ignored during the shutdown
	close(release)
	m, _ := p.readAnswer(t, `"slow"`)
	if got := m.Get("result.content.0.text").String(); got != `{"done":true}` {
		t.Errorf("the running call was answered %s, want done", m.Raw)
	}
	if got := clitest.ExitCode(p.cmd.Wait()); got != "0" {
		t.Errorf("exit status %s, want 0: %s", got, p.stderr)
	}
}

// TestServeStatus checks the exit status: 0 if a service manager ends the server, 130 if a person interrupts it.
func TestServeStatus(t *testing.T) {
	t.Parallel()
	config := clitest.Write(t, t.TempDir(), "onecall.yaml", "lite: true\n")
	for signal, want := range map[os.Signal]string{syscall.SIGTERM: "0", os.Interrupt: "130"} {
		p := startStdioServer(t, config)
		p.checkServes(t)
		if err := p.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if got := clitest.ExitCode(p.cmd.Wait()); got != want {
			t.Errorf("over stdio, %v: exit status %s, want %s: %s", signal, got, want, p.stderr)
		}
		s := serveHTTP(t, config)
		if err := s.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-s.ended:
			if got := clitest.ExitCode(err); got != want {
				t.Errorf("over HTTP, %v: exit status %s, want %s: %s", signal, got, want, s.stderr)
			}
		case <-time.After(clitest.TooLong):
			t.Fatalf("over HTTP, %v did not end the server: %s", signal, s.stderr)
		}
	}
}

// TestServeSecondSignal checks that the second signal ends the process at once.
func TestServeSecondSignal(t *testing.T) {
	t.Parallel()
	slow := newSlowService(t)
	p := startStdioServer(t, slow.config(t))
	p.startSlowCall(t, slow)
	p.startShutdown(t)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait()
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("the process ended with %v, want SIGTERM", p.cmd.ProcessState)
	}
}

// TestServeBeforeSources checks that clients are served even if an upstream never finishes starting.
func TestServeBeforeSources(t *testing.T) {
	t.Parallel()
	config := clitest.Write(t, t.TempDir(), "onecall.yaml", startingForever+"groups: {nothing: [mute]}\nsurface: dispatch\n")
	p := startStdioServer(t, config)
	p.write(t, `{"jsonrpc":"2.0","id":"state","method":"tools/call","params":{"name":"info","arguments":{}}}`)
	m, _ := p.readAnswer(t, `"state"`)
	if text := m.Get("result.content.0.text").String(); gjson.Get(text, `sources.#(name=="mute").state`).String() != "starting" {
		t.Errorf("info: %s, want the state starting", m.Raw)
	}
	p.checkServes(t)
	p.finish(t)
	if strings.Contains(p.stderr.String(), "groups") {
		t.Errorf("the log reports a group without functions before its source has started: %s", p.stderr)
	}
}

// TestServeHTTP checks that clients over HTTP have the tier of access.http, and that the address is local.
func TestServeHTTP(t *testing.T) {
	t.Parallel()
	config := clitest.Write(t, t.TempDir(), "onecall.yaml",
		"functions: {expr.eval: {tier: admin}, fs.list: {tier: read_write}, fs.find: {tier: read}}\n")
	s := serveHTTP(t, config, "--http", ":0")
	u, err := url.Parse(s.url)
	if err != nil || u.Hostname() != "127.0.0.1" || u.Path != "/mcp" {
		t.Fatalf("the URL is %q, want one on 127.0.0.1", s.url)
	}
	sees := func(url, function string) bool {
		text, failed := stateful(t, url).tool(t, "chain",
			map[string]any{"dryRun": true, "steps": []any{map[string]any{"fn": function, "args": map[string]any{"expression": "1"}}}})
		return !failed || gjson.Get(text, "error.faults.0.code").String() != "unknown_function"
	}
	for tier, want := range map[string][3]bool{"": {true, false, false}, "read_write": {true, true, false}, "admin": {true, true, true}} {
		url := s.url
		if tier != "" {
			url = serveHTTP(t, clitest.Write(t, t.TempDir(), "onecall.yaml",
				"access: {http: "+tier+"}\nfunctions: {expr.eval: {tier: admin}, fs.list: {tier: read_write}, fs.find: {tier: read}}\n")).url
		}
		if got := [3]bool{sees(url, "fs.find"), sees(url, "fs.list"), sees(url, "expr.eval")}; got != want {
			t.Errorf("with access.http %q, visible functions %v, want %v", tier, got, want)
		}
	}
	out, err := clitest.Command(t, t.TempDir(), "serve", "--http", u.Host).CombinedOutput()
	if clitest.ExitCode(err) != "1" || !strings.Contains(string(out), "another program listens on "+u.Host) {
		t.Errorf("an address in use: %v, want exit status 1: %s", err, out)
	}
}
