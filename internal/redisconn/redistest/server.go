// Package redistest runs a real Redis or Valkey server for tests, and proxies that disturb connections to it.
package redistest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/internal/porttest"
	"github.com/onecall-mcp/onecall/internal/syncbuf"
)

// Server is a real server in a folder of its own.
type Server struct {
	tb     testing.TB
	dir    string
	port   string
	args   []string
	cmd    *exec.Cmd
	output *syncbuf.Buffer
	ended  chan struct{} // closed when the process has ended
	result error         // the error of the process, as Wait returns it; set before ended is closed
}

// Start starts a real server on a free port and a socket. It ends with the test. args are further arguments of redis-server; unless they
// say otherwise, the server writes nothing to disk. If no server is installed, the test is skipped.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	dir, err := os.MkdirTemp("", "redis") // the path of a socket must be short
	if err != nil {
		tb.Fatal(err)
	}
	s := &Server{tb: tb, dir: dir, port: porttest.Reserve(tb)}
	s.args = append([]string{"--port", s.port, "--bind", "127.0.0.1", "--unixsocket", s.Socket(), "--dir", dir, "--save", "",
		"--appendonly", "no"}, args...)
	tb.Cleanup(func() {
		s.Kill()
		_ = os.RemoveAll(dir)
	})
	s.Restart()
	return s
}

// Restart starts the server again after Kill, on the same addresses and folder, and waits until it listens.
func (s *Server) Restart() {
	s.tb.Helper()
	var binary string
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil && binary == "" {
			binary = path
		}
	}
	if binary == "" {
		s.tb.Skip("neither redis-server nor valkey-server is installed (Debian package redis-server)")
	}
	s.output = new(syncbuf.Buffer)
	s.cmd = exec.Command(binary, s.args...)
	s.cmd.Stdout, s.cmd.Stderr = s.output, s.output
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		s.tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), polltest.TooLong)
	defer cancel()
	s.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) {
		defer close(ended)
		s.result = cmd.Wait()
		cancel()
	}(s.cmd, s.ended)
	if s.output.Await(ctx, listening, 1) != nil {
		return
	}
	s.Kill()
	s.tb.Fatalf("the server does not start: %v: %s", s.result, s.output)
}

// listening matches the line in which a server logs that it listens on its port or socket.
var listening = regexp.MustCompile("eady to accept connections")

// Kill ends the server as kill -9 does.
func (s *Server) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		<-s.ended
		s.cmd = nil
	}
}

// Hang stops the server until Resume. The system still accepts connections, but nothing answers them.
func (s *Server) Hang() { s.signal("-STOP") }

// Resume resumes the server after Hang.
func (s *Server) Resume() { s.signal("-CONT") }

func (s *Server) signal(which string) {
	s.tb.Helper()
	if output, err := exec.Command("kill", which, strconv.Itoa(s.cmd.Process.Pid)).CombinedOutput(); err != nil {
		s.tb.Fatalf("kill %s: %v: %s", which, err, output)
	}
}

// Socket returns the path of the server's socket.
func (s *Server) Socket() string { return filepath.Join(s.dir, "s") }

// Address returns the server's host and port.
func (s *Server) Address() string { return "127.0.0.1:" + s.port }

// URL returns the URL of the server's socket.
func (s *Server) URL() string { return "unix://" + s.Socket() }

// TCP returns the URL of the server's port.
func (s *Server) TCP() string { return "redis://" + s.Address() }

// Client returns a plain client of the server, with which a test looks behind the code under test. It closes with the test.
func (s *Server) Client(tb testing.TB) *redis.Client {
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket(), Protocol: 2})
	tb.Cleanup(func() { _ = c.Close() })
	return c
}
