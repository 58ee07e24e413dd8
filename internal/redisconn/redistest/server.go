// Package redistest runs the real server for tests, and proxies that make trouble on the way to it.
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
	ended  chan struct{} // closed when it has
	result error         // how it did
}

// Start starts the real server on a free port and a socket, with nothing written to the disk unless args, which are those of
// redis-server, say so. It ends with the test. Where there is no such server on the machine the test is skipped.
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

// listening is in the line by which a server says that it listens, on its port and its socket.
var listening = regexp.MustCompile("eady to accept connections")

// Kill ends the server as kill -9 does.
func (s *Server) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		<-s.ended
		s.cmd = nil
	}
}

// Hang has the server do nothing until Go: connections are taken by the system, and nobody answers.
func (s *Server) Hang() { s.signal("-STOP") }

// Go has a server go on that hangs.
func (s *Server) Go() { s.signal("-CONT") }

func (s *Server) signal(which string) {
	s.tb.Helper()
	if output, err := exec.Command("kill", which, strconv.Itoa(s.cmd.Process.Pid)).CombinedOutput(); err != nil {
		s.tb.Fatalf("kill %s: %v: %s", which, err, output)
	}
}

// Socket is the path of the server's socket.
func (s *Server) Socket() string { return filepath.Join(s.dir, "s") }

// Address is the server's host and port.
func (s *Server) Address() string { return "127.0.0.1:" + s.port }

// URL is that of the server's socket.
func (s *Server) URL() string { return "unix://" + s.Socket() }

// TCP is the URL of the server's port.
func (s *Server) TCP() string { return "redis://" + s.Address() }

// Client is a plain client of the server, for a look behind what is tested.
func (s *Server) Client(tb testing.TB) *redis.Client {
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket(), Protocol: 2})
	tb.Cleanup(func() { _ = c.Close() })
	return c
}
