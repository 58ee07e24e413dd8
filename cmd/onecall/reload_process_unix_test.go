//go:build unix

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestReloadsLeakNothing: after many reloads a server has as many goroutines, processes and files open as after one.
func TestReloadsLeakNothing(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	config := func(n int) string {
		servers := map[string]any{"stays": upstreamOf(t, folder, "stays")}
		moves := upstreamOf(t, folder, "moves")
		moves["env"].(map[string]string)["ROUND"] = strconv.Itoa(n / 10) // a process each time would take the time of a test
		servers["moves"] = moves
		return writeJSON(t, folder, "onecall.json", map[string]any{"mcpServers": servers, "access": map[string]string{"http": "read_write"}, "lite": n%2 == 0, "results": map[string]any{"maxBytes": 1000000 + n%3}})
	}
	s := serveHTTP(t, config(0), "--log-level", "warn")
	w := stateless(t, s.url)
	ready := func() {
		within(t, "the sources are ready", s.stderr, func() bool {
			inner := map[string]any{"lite": true, "steps": []any{map[string]any{"fn": "expr.eval", "args": map[string]any{"expression": "1"}}}}
			_, failed := w.tool(t, "chain", map[string]any{"steps": []any{map[string]any{"fn": "stays.chain", "args": inner}, map[string]any{"fn": "moves.chain", "args": inner}}})
			return !failed
		})
	}
	reload := func(n int) {
		config(n)
		hangUp(t, s.cmd)
		says(t, s.stderr, wasLoaded, n)
	}
	open := func() int {
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
		if err != nil {
			t.Skip("needs /proc: ", err)
		}
		return len(files)
	}
	ready()
	stays := children(t, s.cmd.Process.Pid)["stays.own.yaml"]
	reload(1)
	ready()
	files, processes := open(), len(children(t, s.cmd.Process.Pid))
	rounds := 100 * longRounds()
	for n := 2; n <= rounds; n++ {
		reload(n)
		if n%10 == 0 {
			alive(t, w)
		}
	}
	ready()
	within(t, "as many files and processes as before", s.stderr, func() bool {
		return open() <= files+4 && len(children(t, s.cmd.Process.Pid)) == processes // connections come and go
	})
	if now := children(t, s.cmd.Process.Pid)["stays.own.yaml"]; now != stays {
		t.Errorf("the server that never changed was started anew: %d, then %d", stays, now)
	}
	t.Logf("%d files after 1 reload, %d after %d", files, open(), rounds)
	after, dump := s.goroutines(t)
	fresh := serveHTTP(t, config(rounds))
	alive(t, stateless(t, fresh.url))
	before, _ := fresh.goroutines(t)
	if t.Logf("%d goroutines after %d reloads, %d of a server without one", after, rounds, before); after > before+12 {
		t.Errorf("goroutines are left:\n%s", lastLines(dump, 400))
	}
}

// TestReloadNotifies: the service manager is told when the server is ready, loads its configuration, and ends.
func TestReloadNotifies(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	states := notifySocket(t)
	cmd := self(t, folder, "serve", "--http", "127.0.0.1:0", "--config", write(t, folder, "onecall.yaml", "lite: true\n"))
	log := &tail{}
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
	if code := exitCodeOf(cmd.Wait()); code != "0" {
		t.Errorf("it ended with %s: %s", code, log)
	}
}

// TestHangupAtStart: a signal that comes before anything is served ends nothing, and is heard when something is.
func TestHangupAtStart(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	config := fifo(t, folder, "config.yaml")
	cmd := self(t, folder, "serve", "--http", "127.0.0.1:0", "--config", config)
	log := &tail{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	pipe, err := os.OpenFile(config, os.O_WRONLY, 0) // waits until it is read
	if err != nil {
		t.Fatal(err)
	}
	hangUp(t, cmd)
	if _, err := pipe.WriteString("lite: true\n"); err != nil {
		t.Fatal(err)
	}
	pipe.Close()
	says(t, log, "listening on", 1)
	says(t, log, "is no regular file, and cannot be read again", 1)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if code := exitCodeOf(cmd.Wait()); code != "0" {
		t.Errorf("it ended with %s: %s", code, log)
	}
}

// fifo makes a named pipe, whose reader waits for who writes.
func fifo(t *testing.T, folder, name string) (path string) {
	t.Helper()
	path = filepath.Join(folder, name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip("needs named pipes: ", err)
	}
	return path
}

// TestPipesInDocuments: a document that is a pipe, or refers to one, holds up neither the start nor a change.
func TestPipesInDocuments(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	fifo(t, folder, "pipe.yaml")
	write(t, folder, "api.yaml", "openapi: 3.0.3\ninfo: {title: t, version: '1'}\npaths: {/things: {$ref: pipe.yaml}}\n")
	p := servePiped(t, write(t, folder, "onecall.yaml", "openapi: {api: {spec: pipe.yaml}, other: {spec: api.yaml}}\n"))
	p.alive(t)
	write(t, folder, "onecall.yaml", "openapi: {api: {spec: pipe.yaml}, other: {spec: api.yaml}}\nlite: true\n")
	hangUp(t, p.cmd)
	says(t, p.stderr, wasLoaded, 1)
	p.alive(t)
	p.finish(t)
}

// TestReloadTellsOfLostResults: a store in memory with another bound is another store.
func TestReloadTellsOfLostResults(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	const lost = "results that were kept before are not found any more"
	p := servePiped(t, write(t, folder, "onecall.yaml", "lite: true\n"))
	p.alive(t)
	for n, text := range []string{"results: {ttl: 1h}\n", "results: {maxBytes: 5MB}\n", "results: {maxBytes: 5MB, pageSize: 5}\n"} {
		write(t, folder, "onecall.yaml", text)
		hangUp(t, p.cmd)
		says(t, p.stderr, wasLoaded, n+1)
		p.alive(t)
	}
	p.finish(t)
	if told := strings.Count(p.stderr.String(), lost); told != 1 {
		t.Errorf("it is told %d times: %s", told, p.stderr)
	}
}

// TestTerminalGoes: a server that was started from a terminal ends with it, as it did before the signal had a meaning.
func TestTerminalGoes(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("script"); err != nil || runtime.GOOS != "linux" {
		t.Skip("needs the script command of Linux for a terminal")
	}
	folder := t.TempDir()
	config := write(t, folder, "terminal.yaml", "lite: true\n")
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := self(t, folder, "-c")
	cmd.Path, _ = exec.LookPath("script")
	cmd.Args = []string{"script", "-qec", path + " serve --http 127.0.0.1:0 --config " + config, "typescript"}
	address := make(chan string, 1)
	log := &tail{address: address}
	cmd.Stdout = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	select {
	case <-address:
	case <-time.After(tooLong):
		t.Fatalf("the server does not listen: %s", log)
	}
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
		t.Fatal("the server is not found")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	within(t, "the server ends with its terminal", log, func() bool { return !serves() })
}

// notified is the socket of a service manager.
type notified struct {
	path string
	*net.UnixConn
}

func notifySocket(t *testing.T) *notified {
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
	return &notified{path, socket}
}

// next waits for a state, which must be the next one that is told.
func (n *notified) next(t *testing.T, want string) {
	t.Helper()
	_ = n.SetReadDeadline(time.Now().Add(tooLong))
	message := make([]byte, 1024)
	size, err := n.Read(message)
	if got := string(message[:size]); err != nil || got != want {
		t.Fatalf("the service manager is told %q, %v, want %q", got, err, want)
	}
}
