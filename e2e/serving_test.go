//go:build e2e && unix

package e2e

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/internal/porttest"
	"github.com/onecall-mcp/onecall/internal/syncbuf"
)

// httpServer is `onecall serve --http` in its own process.
type httpServer struct {
	url    string
	cmd    *exec.Cmd
	stderr *logTail
	ended  chan error // receives the process's error, then is closed
}

// logTail keeps the log of a process.
type logTail struct{ syncbuf.Buffer }

var listening = regexp.MustCompile(`listening on (http://\S+)[^\n]*\n`)

// waitForLog waits until a process has logged a text a number of times.
func waitForLog(t testing.TB, log *logTail, what string, times int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clitest.TooLong)
	defer cancel()
	if log.Await(ctx, regexp.MustCompile(regexp.QuoteMeta(what)), times) == nil {
		t.Fatalf("the log lacks %q, want it %d times: %s", what, times, log)
	}
}

// serveHTTP starts a server on a free port. At the end of the test it terminates the server, which must end.
func serveHTTP(t testing.TB, config string, args ...string) *httpServer {
	t.Helper()
	s := &httpServer{stderr: new(logTail), ended: make(chan error, 1)}
	s.cmd = clitest.Self(t, t.TempDir(), append([]string{"serve", "--http", "127.0.0.1:0", "--config", config}, args...)...)
	s.listen(t)
	return s
}

// listen starts the server and waits until it logs its address.
func (s *httpServer) listen(t testing.TB) {
	t.Helper()
	s.start(t, listening)
}

// start starts a server, whose log has its URL as the first group of address.
func (s *httpServer) start(t testing.TB, address *regexp.Regexp) {
	t.Helper()
	s.cmd.Stderr = s.stderr
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), clitest.TooLong)
	defer cancel()
	go func() {
		s.ended <- s.cmd.Wait()
		close(s.ended)
		cancel()
	}()
	t.Cleanup(func() { s.end(t) })
	match := s.stderr.Await(ctx, address, 1)
	if match == nil {
		t.Fatalf("the log lacks the address of the server: %s", s.stderr)
	}
	s.url = match[1]
}

// end terminates the server and checks its exit status, unless it has ended.
func (s *httpServer) end(t testing.TB) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); errors.Is(err, os.ErrProcessDone) {
		return
	}
	select {
	case err := <-s.ended:
		if code := clitest.ExitCode(err); code != "0" && code != "130" {
			t.Errorf("exit status %s, want 0 or 130: %s", code, s.stderr)
		}
	case <-time.After(clitest.TooLong):
		_ = s.cmd.Process.Kill()
		t.Errorf("the server did not end: %s", s.stderr)
	}
}

var goroutine = regexp.MustCompile(`(?m)^goroutine \d+ .*\[`)

// goroutines ends a server with the signal that makes Go's runtime dump its goroutines, and counts them.
func (s *httpServer) goroutines(t *testing.T) (count int, dump string) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatalf("SIGQUIT: %v: %s", err, s.stderr)
	}
	select {
	case <-s.ended:
	case <-time.After(clitest.TooLong):
		_ = s.cmd.Process.Kill()
		t.Fatal("the server did not end")
	}
	dump = s.stderr.String()
	return len(goroutine.FindAllString(dump, -1)), dump
}

// everythingServer returns the SDK's server for conformance tests, from ONECALL_TEST_BIN or PATH.
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

// bareServer starts the SDK's server for conformance tests on a free port and returns its URL.
func bareServer(t *testing.T, args ...string) string {
	t.Helper()
	address := "127.0.0.1:" + porttest.Reserve(t)
	log := &logTail{}
	cmd := exec.Command(everythingServer(t), append([]string{"-http", address}, args...)...)
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	polltest.Until(t, "the bare server listens", func() bool {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			connection.Close()
		}
		return err == nil
	})
	return "http://" + address + "/"
}

// httpClient returns a client whose connections end with the test.
func httpClient(t testing.TB) *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: clitest.TooLong}
}

// longRounds returns how often a test repeats itself: ten times with ONECALL_TEST_LONG=1, otherwise once.
func longRounds() int {
	if os.Getenv("ONECALL_TEST_LONG") != "" {
		return 10
	}
	return 1
}

// lastLines returns the last n lines of a text.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
