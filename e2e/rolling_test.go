//go:build e2e && unix

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/internal/porttest"
	"github.com/onecall-mcp/onecall/internal/sqldb/postgrestest"
)

// TestRollingRestart restarts two servers that share results, in turn, behind the nginx file of docs/operate.md, while clients make
// fast and slow calls. No call may fail, but for those cut off with a listener. Clients with a session open a new one after theirs ended
// with its server.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	ports := [2]string{porttest.Reserve(t), porttest.Reserve(t)}
	front := nginx(t, ports)
	direct, balanced := newHeldCall(), newHeldCall()
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/direct" {
			direct.wait(r)
		} else {
			balanced.wait(r)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, "42")
	}))
	t.Cleanup(slow.Close)
	config := clitest.Write(t, t.TempDir(), "onecall.yaml", inDatabase(postgrestest.Start(t).Database(t))+
		fmt.Sprintf("http: {allow: [%q]}\n", strings.TrimPrefix(slow.URL, "http://")))
	var servers [2]*httpServer
	start := func(i int) {
		servers[i] = serveHTTP(t, config, "--http", "127.0.0.1:"+ports[i], "--metrics", "127.0.0.1:0", "--replica",
			[]string{"first", "second"}[i])
		polltest.Until(t, "the server is ready", func() bool {
			code, _ := servers[i].statusOf(t, "/readyz", "")
			return code == http.StatusOK
		})
	}
	start(0)
	start(1)

	var wg sync.WaitGroup
	var replies, reopened, cut atomic.Int64
	stop := make(chan struct{})
	repeat := func(do func() error) {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond):
				}
				if err := do(); err != nil {
					t.Error(err)
					return
				}
				replies.Add(1)
			}
		})
	}
	call := func(w *rawClient, fn string, args map[string]any) error {
		chain := map[string]any{"lite": true, "steps": []any{map[string]any{"fn": fn, "args": args}}}
		r, err := w.try(t, http.MethodPost, w.message(t, "1", "tools/call", map[string]any{"name": "chain", "arguments": chain}), nil)
		if err != nil {
			return err
		}
		text := r.answer().Get("result.content.0.text").Str
		if body := gjson.Get(text, "body"); body.Exists() {
			text = body.String()
		}
		switch {
		case w.session != "" && r.status == http.StatusNotFound:
			reopened.Add(1)
			if w.open(t) != nil {
				w.session = "gone" // the server ended while it opened the session: try again
			}
			return nil
		case w.session != "" && strings.Contains(text, "the server is shutting down: nothing of this call was run"):
			return nil
		case r.status == http.StatusBadGateway:
			// A system that suspends the program between its last accept and the listener's end resets the connections that were made
			// meanwhile: one of each client at the most.
			cut.Add(1)
			return nil
		case r.status != http.StatusOK || text != "42":
			return fmt.Errorf("%s in version %q: status %d, want 200 and 42: %s", fn, w.version, r.status, r.body)
		}
		return nil
	}
	const clients = 6
	sessionless := stateless(t, front)
	repeat(func() error { return call(sessionless, "expr.eval", map[string]any{"expression": "6 * 7"}) })
	repeat(func() error { return call(sessionless, "http.get", map[string]any{"url": slow.URL}) })
	for range clients - 2 {
		w := anyClient(t, front, statefulVersion)
		repeat(func() error { return call(w, "expr.eval", map[string]any{"expression": "6 * 7"}) })
	}
	for round := range 4 {
		i := round % 2
		client := stateless(t, "http://127.0.0.1:"+ports[i]+"/mcp")
		wg.Go(func() {
			if err := call(client, "http.get", map[string]any{"url": slow.URL + "/direct"}); err != nil {
				t.Errorf("a call that ran when its server was terminated: got error %v, want none", err)
			}
		})
		await(t, direct.arrived, "a call runs on the server")
		await(t, balanced.arrived, "a call runs behind nginx")
		if err := servers[i].cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		polltest.Until(t, "the server refuses calls", func() bool {
			r := client.send(t, http.MethodPost, client.message(t, `"seven"`, "tools/list", nil), nil)
			return r.status == http.StatusServiceUnavailable && r.header.Get("Retry-After") == "1" && r.answer().Get("id").Str == "seven"
		})
		for _, address := range []string{strings.TrimSuffix(client.url, "/mcp"), metricsBase.FindStringSubmatch(servers[i].stderr.String())[1]} {
			if r := (&rawClient{url: address + "/readyz", client: client.client}).send(t, http.MethodGet, nil,
				nil); r.status != http.StatusServiceUnavailable {
				t.Errorf("%s during the shutdown: status %d, want 503: %s", address, r.status, r.body)
			}
		}
		before := replies.Load()
		polltest.Until(t, "other clients are served", func() bool { return replies.Load() > before+5 })
		for _, held := range []heldCall{direct, balanced} {
			select {
			case held.release <- struct{}{}:
			case <-time.After(clitest.TooLong):
				t.Fatal("a call was broken off when its server was terminated")
			}
		}
		if code := clitest.ExitCode(<-servers[i].ended); code != "0" {
			t.Errorf("exit status %s, want 0: %s", code, servers[i].stderr)
		}
		if log := sessionEndLine.ReplaceAllString(servers[i].stderr.String(), ""); strings.Contains(log, "level=WARN") ||
			strings.Contains(log, "level=ERROR") {
			t.Errorf("the log has a warning or an error: %s", log)
		}
		start(i)
	}
	close(stop)
	close(balanced.release)
	wg.Wait()
	if replies.Load() < 50 || reopened.Load() == 0 {
		t.Errorf("%d calls were answered, want at least 50; %d sessions were reopened, want at least 1", replies.Load(), reopened.Load())
	}
	if cut.Load() > clients {
		t.Errorf("%d calls were cut off, want at most one of each of the %d clients", cut.Load(), clients)
	}
	t.Logf("%d calls were answered, %d cut off, %d sessions were reopened", replies.Load(), cut.Load(), reopened.Load())
}

// heldCall holds calls of a service until the test releases them.
type heldCall struct{ arrived, release chan struct{} }

func newHeldCall() heldCall { return heldCall{make(chan struct{}, 1), make(chan struct{})} }

// wait reports that a call has arrived, and returns when it is released or its client has left.
func (h heldCall) wait(r *http.Request) {
	select {
	case h.arrived <- struct{}{}:
	case <-h.release: // closed
		return
	}
	select {
	case <-h.release:
	case <-r.Context().Done():
	}
}

// TestKillDuringSession kills a server during a call behind the same nginx. The answer to the call must not be "session not found", which
// would mean that nothing was done. The answer to the next request must be that.
func TestKillDuringSession(t *testing.T) {
	t.Parallel()
	ports := [2]string{porttest.Reserve(t), porttest.Reserve(t)}
	front := nginx(t, ports)
	arrived := make(chan struct{}, 1)
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(slow.Close)
	config := clitest.Write(t, t.TempDir(), "onecall.yaml", fmt.Sprintf("http: {allow: [%q]}\n", strings.TrimPrefix(slow.URL, "http://")))
	servers := map[string]*httpServer{}
	for i, name := range []string{"first", "second"} {
		servers[name] = serveHTTP(t, config, "--http", "127.0.0.1:"+ports[i], "--replica", name)
	}
	w := anyClient(t, front, statefulVersion)
	name, _, _ := strings.Cut(w.session, "-")
	status := make(chan int, 1)
	go func() {
		chain := map[string]any{"steps": []any{map[string]any{"fn": "http.get", "args": map[string]any{"url": slow.URL}}}}
		r, err := w.try(t, http.MethodPost, w.message(t, "1", "tools/call", map[string]any{"name": "chain", "arguments": chain}), nil)
		if err != nil {
			t.Error(err)
		}
		status <- r.status
	}()
	await(t, arrived, "a call runs")
	if err := servers[name].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-servers[name].ended
	if got := <-status; got != http.StatusBadGateway {
		t.Errorf("the call that ran: status %d, want 502", got)
	}
	if r := w.send(t, http.MethodPost, w.message(t, "2", "tools/list", nil), nil); r.status != http.StatusNotFound {
		t.Errorf("the next request: status %d, want 404: %s", r.status, r.body)
	}
}

// sessionEndLine matches lines about requests in sessions that the server ends.
var sessionEndLine = regexp.MustCompile(`(?m)^.*level=WARN msg=request kind=refuse .*code=unavailable.*\n`)

// refusedLine matches lines of nginx about connections to a replica that is down.
var refusedLine = regexp.MustCompile(`(?m)^.*connect\(\) failed \(111.*\n`)

var tlsLines = regexp.MustCompile(`(?m)^ *ssl_certificate .*\n`)

// nginx starts the proxy in front of servers at two ports, with the file of docs/operate.md but without TLS, and returns its URL.
func nginx(t *testing.T, ports [2]string) (url string) {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		program = "/usr/sbin/nginx" // only administrators have it on their PATH
		if _, err := os.Stat(program); err != nil {
			t.Skip("nginx is not installed")
		}
	}
	text, err := os.ReadFile("../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)`nginx.conf`\n\n```text\n(.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("docs/operate.md has no nginx.conf")
	}
	port, folder := porttest.Reserve(t), t.TempDir()
	file := strings.NewReplacer("listen 443 ssl;", "listen 127.0.0.1:"+port+";", "8080", ports[0], "8081",
		ports[1]).Replace(tlsLines.ReplaceAllString(string(block[1]), ""))
	temporary := ""
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temporary += fmt.Sprintf("%s_temp_path %s;\n", kind, filepath.Join(folder, kind))
	}
	clitest.Write(t, folder, "nginx.conf", fmt.Sprintf("daemon off; worker_processes 2; pid %s; error_log stderr;\nevents {}\n"+
		"http {\naccess_log off;\n%s%s}\n", filepath.Join(folder, "pid"), temporary, file))
	cmd := exec.CommandContext(context.Background(), program, "-p", folder, "-c", filepath.Join(folder, "nginx.conf"), "-e", "stderr")
	log := &logTail{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			// A replica that is down refuses connections, hundreds of times.
			t.Logf("nginx: %s", refusedLine.ReplaceAllString(log.String(), ""))
		}
	})
	url = "http://127.0.0.1:" + port + "/mcp"
	client := httpClient(t)
	polltest.Until(t, "nginx listens", func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := client.Do(req)
		if err == nil {
			r.Body.Close()
		}
		return err == nil
	})
	return url
}
