//go:build e2e && unix

package e2e

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// TestUnreadLog checks that a server whose log is not read still answers and ends, and counts the dropped lines in its metrics.
func TestUnreadLog(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	config := t.TempDir() + "/onecall.yaml"
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := clitest.Self(t, t.TempDir(), "serve", "--http", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--log-level", "debug",
		"--config", config)
	cmd.Stderr = write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	_ = write.Close()
	// Read byte by byte to the end of the line with the second address, so that the rest of the log stays unread.
	var logStart []byte
	addresses := regexp.MustCompile(`http://\S+(/metrics|/mcp)`)
	for b := make([]byte, 1); len(addresses.FindAll(logStart, -1)) < 2 || b[0] != '\n'; {
		if _, err := read.Read(b); err != nil {
			t.Fatalf("read of the log: %v: %s", err, logStart)
		}
		logStart = append(logStart, b[0])
	}
	urls := map[string]string{}
	for _, match := range addresses.FindAllStringSubmatch(string(logStart), -1) {
		urls[match[1]] = match[0]
	}
	var steps []any
	for range 900 {
		steps = append(steps, map[string]any{"fn": "expr.eval", "args": map[string]any{"expression": "1"}})
	}
	client := stateless(t, urls["/mcp"])
	for i := range 12 { // about 150 KB of log each
		if text, failed := client.tool(t, "chain", map[string]any{"lite": true, "steps": steps}); failed || text != "1" {
			t.Fatalf("request %d: got %s (failed: %t), want 1", i, text, failed)
		}
	}
	response, err := httpClient(t).Get(urls["/metrics"])
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("/metrics: got status %d, %v, want 200", response.StatusCode, err)
	}
	match := regexp.MustCompile(`(?m)^onecall_log_lines_dropped_total ([0-9.e+]+)$`).FindSubmatch(page)
	if match == nil {
		t.Fatal("the metrics lack onecall_log_lines_dropped_total")
	}
	if n, err := strconv.ParseFloat(string(match[1]), 64); err != nil || n < 100 {
		t.Fatalf("%s lines were dropped, want at least 100", match[1])
	}
	const notice = "lines of this log were dropped because it was not read"
	log, closed := &logTail{}, make(chan struct{})
	go func() {
		defer close(closed)
		_, _ = io.Copy(log, read)
	}()
	waitForLog(t, log, notice, 1) // the log continues when it is read
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if code := clitest.ExitCode(err); code != "0" && code != "130" {
			t.Errorf("exit status %s, want 0 or 130", code)
		}
	case <-time.After(clitest.TooLong):
		t.Fatal("the server did not end")
	}
	<-closed
}
