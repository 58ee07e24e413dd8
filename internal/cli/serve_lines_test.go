//go:build unix

package cli

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// TestNobodyReads: a server whose log nobody reads answers all the same, tells in its metrics what it gave up, and ends.
func TestNobodyReads(t *testing.T) {
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
	cmd := self(t, t.TempDir(), "serve", "--http", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--log-level", "debug", "--config", config)
	cmd.Stderr = write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	_ = write.Close()
	var said []byte
	addresses := regexp.MustCompile(`http://\S+(/metrics|/mcp)`)
	for one := make([]byte, 1); len(addresses.FindAll(said, -1)) < 2 || one[0] != '\n'; said = append(said, one...) {
		if _, err := read.Read(one); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
	}
	urls := map[string]string{}
	for _, found := range addresses.FindAllStringSubmatch(string(said), -1) {
		urls[found[1]] = found[0]
	}
	var steps []any
	for range 900 {
		steps = append(steps, map[string]any{"fn": "expr.eval", "args": map[string]any{"expression": "1"}})
	}
	client := stateless(t, urls["/mcp"])
	for i := range 12 { // each is some 150 KB of log
		if text, failed := client.tool(t, "chain", map[string]any{"lite": true, "steps": steps}); failed || text != "1" {
			t.Fatalf("request %d: %s", i, text)
		}
	}
	response, err := httpClient(t).Get(urls["/metrics"])
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(response.StatusCode, err)
	}
	found := regexp.MustCompile(`(?m)^onecall_log_lines_dropped_total ([0-9.e+]+)$`).FindSubmatch(page)
	if found == nil {
		t.Fatal("it is not among the metrics")
	}
	if n, err := strconv.ParseFloat(string(found[1]), 64); err != nil || n < 100 {
		t.Fatalf("%s lines were given up", found[1])
	}
	const given = "lines of this log were given up, as nobody read it"
	log, closed := &tail{}, make(chan struct{})
	go func() {
		defer close(closed)
		_, _ = io.Copy(log, read)
	}()
	says(t, log, given, 1) // it goes on by itself
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if code := exitCodeOf(err); code != "0" && code != "130" {
			t.Errorf("it ended with %s", code)
		}
	case <-time.After(tooLong):
		t.Fatal("it does not end")
	}
	<-closed
}
