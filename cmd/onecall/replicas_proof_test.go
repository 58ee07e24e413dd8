//go:build unix

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// redisServer starts the real server on a socket of its own, which survives a kill -9 with all that it has answered. start
// starts it again.
func redisServer(t *testing.T) (socket string, kill, start func()) {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed (Debian package redis-server)")
	}
	folder, err := os.MkdirTemp("", "redis") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	socket = filepath.Join(folder, "s")
	var running *exec.Cmd
	start = func() {
		running = exec.Command(binary, "--port", "0", "--unixsocket", socket, "--dir", folder, "--save", "", "--appendonly", "yes", "--appendfsync", "always", "--requirepass", "quite-secret-word")
		if err := running.Start(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			if conn, err := (&net.Dialer{}).DialContext(context.Background(), "unix", socket); err == nil {
				conn.Close()
				return
			}
			if time.Now().After(deadline) {
				t.Fatal("redis-server does not listen")
			}
		}
	}
	kill = func() {
		_ = running.Process.Signal(syscall.SIGKILL)
		_ = running.Wait() // it was killed
	}
	start()
	t.Cleanup(kill)
	return socket, kill, start
}

// TestReplicas: what one server keeps on Redis another gives out; the death of either, and of Redis, loses nothing that was
// answered, and while Redis is away an answer that needs it says so.
func TestReplicas(t *testing.T) {
	t.Parallel()
	socket, kill, start := redisServer(t)
	config := filepath.Join(t.TempDir(), "onecall.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "results: {store: \"unix://:quite-secret-word@%s\"}\n", socket), 0o600); err != nil {
		t.Fatal(err)
	}
	first, second := serveHTTP(t, config), serveHTTP(t, config)
	large := map[string]any{"lite": true, "steps": []any{map[string]any{"fn": "expr.eval", "args": map[string]any{"expression": "map(1..20000, ({id: #}))"}}}}
	text, failed := stateless(t, first.url).tool(t, "chain", large)
	token := gjson.Get(text, "continuation_token").Str
	if failed || token == "" {
		t.Fatalf("no probe: %s", text)
	}
	page := func(at *serving, n int) (string, bool) {
		return stateless(t, at.url).tool(t, "chain", map[string]any{"lite": true, "continuation_token": token, "mode": "paginated", "page": n, "page_size": 1})
	}
	for n, at := range []*serving{first, second, first, second} {
		if text, failed := page(at, n+1); failed || gjson.Get(text, "items.0.id").Int() != int64(n+1) {
			t.Errorf("page %d: %s", n+1, text)
		}
	}
	_ = first.cmd.Process.Signal(syscall.SIGKILL)
	<-first.ended
	if text, failed := page(second, 7); failed || gjson.Get(text, "items.0.id").Int() != 7 {
		t.Errorf("after the death of the one that kept it: %s", text)
	}
	kill()
	text, failed = page(second, 8)
	if !failed || gjson.Get(text, "error.code").Str != "unavailable" || strings.Contains(text, "quite-secret") {
		t.Errorf("without Redis: %s", text)
	}
	small, failed := stateless(t, second.url).tool(t, "chain", map[string]any{"lite": true, "steps": []any{map[string]any{"fn": "expr.eval", "args": map[string]any{"expression": "1 + 1"}}}})
	if failed || small != "2" {
		t.Errorf("what needs no Redis: %s", small)
	}
	start()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		text, failed = page(second, 8)
		if !failed && gjson.Get(text, "items.0.id").Int() == 8 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("Redis is back: %s", text)
		}
	}
}
