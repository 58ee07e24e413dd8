//go:build e2e && unix

package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/polltest"
)

// TestReloadsLeakNothing checks that after many reloads a server has as many goroutines, processes and open files as after one.
func TestReloadsLeakNothing(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	// The upstreams end after their server, and write into the folder until then.
	t.Cleanup(func() { polltest.Until(t, "the upstreams have ended", func() bool { return !isMentioned(folder) }) })
	config := func(n int) string {
		servers := map[string]any{"stays": upstreamOf(t, folder, "stays")}
		restarts := upstreamOf(t, folder, "restarts")
		restarts["env"].(map[string]string)["ROUND"] = strconv.Itoa(n / 10) // a new process in every round would take too long
		servers["restarts"] = restarts
		return writeJSON(t, folder, "onecall.json", map[string]any{"mcpServers": servers,
			"access": map[string]string{"http": "read_write"}, "lite": n%2 == 0, "results": map[string]any{"maxBytes": 1000000 + n%3}})
	}
	s := serveHTTP(t, config(0), "--log-level", "warn")
	w := stateless(t, s.url)
	ready := func(server *httpServer) {
		w := stateless(t, server.url)
		polltest.Until(t, "the sources are ready", func() bool {
			inner := map[string]any{"lite": true, "steps": []any{map[string]any{"fn": "expr.eval", "args": map[string]any{"expression": "1"}}}}
			_, failed := w.tool(t, "chain", map[string]any{"steps": []any{map[string]any{"fn": "stays.chain", "args": inner},
				map[string]any{"fn": "restarts.chain", "args": inner}}})
			return !failed
		}, server.stderr)
	}
	reload := func(n int) {
		config(n)
		hangUp(t, s.cmd)
		waitForLog(t, s.stderr, logReloaded, n)
	}
	openFiles := func() int {
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
		if err != nil {
			t.Skip("needs /proc: ", err)
		}
		return len(files)
	}
	ready(s)
	staysPID := children(t, s.cmd.Process.Pid)["stays.own.yaml"]
	reload(1)
	ready(s)
	files, processes := openFiles(), len(children(t, s.cmd.Process.Pid))
	rounds := 100 * longRounds()
	for n := 2; n <= rounds; n++ {
		reload(n)
		if n%10 == 0 {
			checkServes(t, w)
		}
	}
	ready(s)
	polltest.Until(t, "as many files and processes as before", func() bool {
		return openFiles() <= files+4 && len(children(t, s.cmd.Process.Pid)) == processes // connections open and close
	}, s.stderr)
	if pid := children(t, s.cmd.Process.Pid)["stays.own.yaml"]; pid != staysPID {
		t.Errorf("the unchanged upstream has process %d, want %d: it was restarted", pid, staysPID)
	}
	t.Logf("%d files after 1 reload, %d after %d", files, openFiles(), rounds)
	after, dump := s.goroutines(t)
	fresh := serveHTTP(t, config(rounds))
	ready(fresh)
	before, _ := fresh.goroutines(t)
	if t.Logf("%d goroutines after %d reloads, %d in a new server", after, rounds, before); after > before+12 {
		t.Errorf("got %d goroutines, want at most %d:\n%s", after, before+12, lastLines(dump, 400))
	}
}

// isMentioned reports whether the command line of a process has a text.
func isMentioned(text string) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	return slices.ContainsFunc(files, func(file string) bool {
		line, _ := os.ReadFile(file) // the process may have ended
		return strings.Contains(string(line), text)
	})
}

// TestReloadNotifies checks that the service manager is notified when the server is ready, reloads and stops.
func TestReloadNotifies(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	states := notifySocket(t)
	cmd := clitest.Self(t, folder, "serve", "--http", "127.0.0.1:0", "--config", clitest.Write(t, folder, "onecall.yaml", "lite: true\n"))
	log := &logTail{}
	cmd.Stderr = log
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+states.path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	states.next(t, "READY=1")
	hangUp(t, cmd)
	states.next(t, "RELOADING=1")
	states.next(t, "READY=1")
	_ = cmd.Process.Signal(syscall.SIGTERM)
	states.next(t, "STOPPING=1")
	if code := clitest.ExitCode(cmd.Wait()); code != "0" {
		t.Errorf("exit status %s, want 0: %s", code, log)
	}
}

// TestHangupAtStart checks that a hangup before the server serves does not end it, and causes a reload later.
func TestHangupAtStart(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	config := fifo(t, folder, "config.yaml")
	cmd := clitest.Self(t, folder, "serve", "--http", "127.0.0.1:0", "--config", config)
	log := &logTail{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	pipe, err := os.OpenFile(config, os.O_WRONLY, 0) // waits for the reader
	if err != nil {
		t.Fatal(err)
	}
	hangUp(t, cmd)
	if _, err := pipe.WriteString("lite: true\n"); err != nil {
		t.Fatal(err)
	}
	pipe.Close()
	waitForLog(t, log, "listening on", 1)
	waitForLog(t, log, "is not a regular file, and cannot be read again", 1)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if code := clitest.ExitCode(cmd.Wait()); code != "0" {
		t.Errorf("exit status %s, want 0: %s", code, log)
	}
}

// fifo creates a named pipe. Its reader waits for a writer.
func fifo(t *testing.T, folder, name string) (path string) {
	t.Helper()
	path = filepath.Join(folder, name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip("needs named pipes: ", err)
	}
	return path
}

// TestPipesInDocuments checks that a document that is a pipe, or refers to one, delays neither the start nor a reload.
func TestPipesInDocuments(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	fifo(t, folder, "pipe.yaml")
	clitest.Write(t, folder, "api.yaml", "openapi: 3.0.3\ninfo: {title: t, version: '1'}\npaths: {/things: {$ref: pipe.yaml}}\n")
	p := startStdioServer(t, clitest.Write(t, folder, "onecall.yaml", "openapi: {api: {spec: pipe.yaml}, other: {spec: api.yaml}}\n"))
	p.checkServes(t)
	clitest.Write(t, folder, "onecall.yaml", "openapi: {api: {spec: pipe.yaml}, other: {spec: api.yaml}}\nlite: true\n")
	hangUp(t, p.cmd)
	waitForLog(t, p.stderr, logReloaded, 1)
	p.checkServes(t)
	p.finish(t)
}

// TestReloadKeepsResults checks that results in memory survive a change of their limits or page size, and a refused change. If they
// exceed a smaller limit, the oldest are removed. If the store changes, they are lost, which is logged.
func TestReloadKeepsResults(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	configured := func(text string) string { return clitest.Write(t, folder, "onecall.yaml", text) }
	s := serveHTTP(t, configured("lite: true\n"))
	w := stateless(t, s.url)
	store := func(n int) string { // stores a result of about 500 kB
		text, _ := w.tool(t, "chain", map[string]any{"steps": []any{map[string]any{"fn": "expr.eval",
			"args": map[string]any{"expression": fmt.Sprintf("map(1..70000, # + %d)", 100000*n)}}}})
		token := gjson.Get(text, "continuation_token").Str
		if token == "" {
			t.Fatalf("got %s, want a continuation_token", text)
		}
		return token
	}
	readable := func(token string, n int) bool {
		text, failed := w.tool(t, "chain", map[string]any{"continuation_token": token, "mode": "query", "query": "$result[0]"})
		if code := gjson.Get(text, "error.code").Str; failed && code != "token_expired" {
			t.Fatalf("result %d: got %s, want it, or token_expired", n, text)
		}
		return !failed && text == fmt.Sprint(100000*n+1)
	}
	tokens := []string{store(0), store(1), store(2)}
	loads := 0
	for _, text := range []string{"maxBytes: 5MB", "ttl: 1h, maxTtl: 2h", "maxBytes: 2MB, pageSize: 5", "ttl: 10m",
		"store: memory, maxBytes: 3MB"} {
		loads++
		configured("lite: true\nresults: {" + text + "}\n")
		hangUp(t, s.cmd)
		waitForLog(t, s.stderr, logReloaded, loads)
		for n, token := range tokens {
			if !readable(token, n) {
				t.Fatalf("after %s, result %d is lost: %s", text, n, s.stderr)
			}
		}
	}
	configured("lite: true\nresults: {maxBytes: 1MB}\nopenapi: {a: {spec: none.yaml}}\n")
	hangUp(t, s.cmd)
	waitForLog(t, s.stderr, logRefused, 1)
	for n, token := range tokens {
		if !readable(token, n) {
			t.Errorf("after a refused change, result %d is lost: %s", n, s.stderr)
		}
	}
	configured("lite: true\nresults: {maxBytes: 1100KB}\n")
	hangUp(t, s.cmd)
	waitForLog(t, s.stderr, logReloaded, loads+1)
	polltest.Until(t, "the oldest result is removed", func() bool { return !readable(tokens[0], 0) }, s.stderr)
	if !readable(tokens[1], 1) || !readable(tokens[2], 2) {
		t.Errorf("a newer result is lost although it is within the smaller limit: %s", s.stderr)
	}
	const lost = "earlier results can no longer be fetched: results.store has changed"
	if strings.Contains(s.stderr.String(), lost) {
		t.Errorf("the log reports lost results although the store did not change: %s", s.stderr)
	}
	configured("lite: true\nresults: {store: disk}\n")
	hangUp(t, s.cmd)
	waitForLog(t, s.stderr, lost, 1)
	if readable(tokens[2], 2) {
		t.Error("a result that was stored in memory is found on disk")
	}
}

// TestTerminalCloses checks that a server that was started from a terminal ends with it, although a hangup otherwise causes a reload.
func TestTerminalCloses(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("script"); err != nil || runtime.GOOS != "linux" {
		t.Skip("needs the script command of Linux for a terminal")
	}
	folder := t.TempDir()
	config := clitest.Write(t, folder, "terminal.yaml", "lite: true\n")
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := clitest.Self(t, folder, "-c")
	cmd.Path, _ = exec.LookPath("script")
	cmd.Args = []string{"script", "-qec", path + " serve --http 127.0.0.1:0 --config " + config, "typescript"}
	log := &logTail{}
	cmd.Stdout = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	waitForLog(t, log, "listening on", 1)
	serves := func() bool {
		lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, name := range lines {
			if line, _ := os.ReadFile(name); strings.HasPrefix(string(line), path) && strings.Contains(string(line), config) {
				return true
			}
		}
		return false
	}
	if !serves() {
		t.Fatal("no process of the server was found")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	polltest.Until(t, "the server ends with its terminal", func() bool { return !serves() }, log)
}

// managerSocket is the socket of a service manager.
type managerSocket struct {
	path string
	*net.UnixConn
}

func notifySocket(t *testing.T) *managerSocket {
	t.Helper()
	folder, err := os.MkdirTemp("", "notify") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	path := filepath.Join(folder, "s")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	return &managerSocket{path, socket}
}

// next waits for the next notification, and checks it.
func (n *managerSocket) next(t *testing.T, want string) {
	t.Helper()
	_ = n.SetReadDeadline(time.Now().Add(clitest.TooLong))
	message := make([]byte, 1024)
	size, err := n.Read(message)
	if got := string(message[:size]); err != nil || got != want {
		t.Fatalf("notification %q, %v, want %q", got, err, want)
	}
}
