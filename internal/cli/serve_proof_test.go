//go:build unix

package cli

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/internal/redisconn/redistest"
)

// serving is `onecall serve --http` in a process of its own.
type serving struct {
	url    string
	cmd    *exec.Cmd
	stderr *tail
	ended  chan error // closed when the process has ended, after its error
}

// tail keeps what a process writes, and tells of the first line that has an address.
type tail struct {
	mu      sync.Mutex
	text    bytes.Buffer
	address chan string
}

var listening = regexp.MustCompile(`listening on (http://\S+)`)

func (w *tail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	if w.address != nil {
		if found := listening.FindSubmatch(w.text.Bytes()); found != nil && bytes.HasSuffix(p, []byte("\n")) {
			w.address <- string(found[1])
			w.address = nil
		}
	}
	return len(p), nil
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// serveHTTP starts a server on a free port. When the test ends, the server is told to end, and must do so.
func serveHTTP(t testing.TB, config string, args ...string) *serving {
	t.Helper()
	address := make(chan string, 1)
	s := &serving{stderr: &tail{address: address}, ended: make(chan error, 1)}
	s.cmd = self(t, t.TempDir(), append([]string{"serve", "--http", "127.0.0.1:0", "--config", config}, args...)...)
	s.listen(t, address)
	return s
}

// listen starts the server and waits until it tells where it listens.
func (s *serving) listen(t testing.TB, address <-chan string) {
	t.Helper()
	s.cmd.Stderr = s.stderr
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.ended <- s.cmd.Wait()
		close(s.ended)
	}()
	t.Cleanup(func() { s.end(t) })
	select {
	case s.url = <-address:
	case err := <-s.ended:
		t.Fatalf("the server ended: %v: %s", err, s.stderr)
	case <-time.After(tooLong):
		t.Fatalf("the server does not tell where it listens: %s", s.stderr)
	}
}

// end has the server end as an operator does. A server that was ended otherwise is left alone.
func (s *serving) end(t testing.TB) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); errors.Is(err, os.ErrProcessDone) {
		return
	}
	select {
	case err := <-s.ended:
		if code := exitCodeOf(err); code != "0" && code != "130" {
			t.Errorf("the server ended with %s: %s", code, s.stderr)
		}
	case <-time.After(tooLong):
		_ = s.cmd.Process.Kill()
		t.Errorf("the server does not end: %s", s.stderr)
	}
}

var goroutine = regexp.MustCompile(`(?m)^goroutine \d+ .*\[`)

// goroutines ends a server with the signal that has Go's runtime write down what runs, and counts.
func (s *serving) goroutines(t *testing.T) (count int, dump string) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatalf("%v: %s", err, s.stderr)
	}
	select {
	case <-s.ended:
	case <-time.After(tooLong):
		_ = s.cmd.Process.Kill()
		t.Fatal("the server does not end")
	}
	dump = s.stderr.String()
	return len(goroutine.FindAllString(dump, -1)), dump
}

// everythingServer is the SDK's server for conformance tests, in ONECALL_TEST_BIN or PATH.
func everythingServer(t *testing.T) string {
	t.Helper()
	path := filepath.Join(os.Getenv("ONECALL_TEST_BIN"), "everything-server")
	if os.Getenv("ONECALL_TEST_BIN") == "" {
		path = "everything-server"
	}
	path, err := exec.LookPath(path)
	if err != nil {
		t.Skip("everything-server of the Go SDK is neither in ONECALL_TEST_BIN nor in PATH")
	}
	return path
}

// bareServer starts the SDK's server for conformance tests on a free port, and gives its URL.
func bareServer(t *testing.T, args ...string) string {
	t.Helper()
	address := "127.0.0.1:" + redistest.FreePort(t)
	log := &tail{}
	cmd := exec.Command(everythingServer(t), append([]string{"-http", address}, args...)...)
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	redistest.Within(t, "the bare server to listen", func() bool {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			connection.Close()
		}
		return err == nil
	})
	return "http://" + address + "/"
}

// httpClient is a client of one test, whose connections end with it.
func httpClient(t testing.TB) *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: tooLong}
}

// longRounds is how often a test repeats itself: ten times with ONECALL_TEST_LONG=1.
func longRounds() int {
	if os.Getenv("ONECALL_TEST_LONG") != "" {
		return 10
	}
	return 1
}

// lastLines is the end of a text.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
