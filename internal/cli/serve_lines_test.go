//go:build unix

package cli

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// gate is a writer that waits until it is opened.
type gate struct {
	open chan struct{}
	mu   sync.Mutex
	b    bytes.Buffer
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.b.Write(p)
}

func (g *gate) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.b.String()
}

// TestLineQueue: nobody waits for who reads the log; what does not fit is counted, and told of when it goes on.
func TestLineQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		q := newLineQueue(g)
		l := (&cli{streams: &streams{err: q}}).newLogs(&serveFlags{logFormat: "text"})
		q.tell(l)
		const lines, length = 3000, 1000
		for i := range lines {
			if n, err := fmt.Fprintf(q, "%05d%s\n", i, strings.Repeat("x", length-6)); n != length || err != nil {
				t.Fatal(n, err)
			}
		}
		fits := maxWaiting / length
		if n := q.Dropped(); n != lines-fits {
			t.Errorf("%d were given up, want %d", n, lines-fits)
		}
		close(g.open)
		synctest.Wait()
		got := strings.Split(strings.TrimSpace(g.String()), "\n")
		if len(got) != fits+1 || !strings.Contains(got[fits], fmt.Sprintf("level=WARN msg=\"lines of this log were given up, as nobody read it\" lines=%d", lines-fits)) {
			t.Fatalf("%d lines, the last is %s", len(got), got[len(got)-1])
		}
		for i, line := range got[:fits] {
			if !strings.HasPrefix(line, fmt.Sprintf("%05dx", i)) {
				t.Fatalf("line %d is %.10s", i, line)
			}
		}
		fmt.Fprintln(q, strings.Repeat("y", 2*maxWaiting)) // alone it may be as long as it is
		fmt.Fprintln(q, "last")
		q.Close()
		if text := g.String(); strings.Count(text, "y") < 2*maxWaiting || !strings.HasSuffix(text, "last\n") && q.Dropped() == lines-fits {
			t.Errorf("after Close: …%s", text[len(text)-10:])
		}
		fmt.Fprintln(q, "after")
		if text := g.String(); !strings.HasSuffix(text, "after\n") {
			t.Errorf("after Close: …%s", text[len(text)-10:])
		}
		q.Close()
	})
}

// TestLineQueueAtTheEnd: the end waits a second for who reads nothing, and no longer.
func TestLineQueueAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		q := newLineQueue(g)
		fmt.Fprintln(q, "never read")
		began := time.Now()
		q.Close()
		if took := time.Since(began); took != linesTime {
			t.Errorf("it took %v", took)
		}
		if n, err := fmt.Fprintln(q, "one more"); n != 9 || err != nil || q.Dropped() != 1 {
			t.Error(n, err, q.Dropped())
		}
		close(g.open)
	})
}

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
