// Package redistest runs the real server for tests, and proxies that make trouble on the way to it.
package redistest

import (
	"bytes"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is a real server in a folder of its own.
type Server struct {
	tb     testing.TB
	dir    string
	port   string
	args   []string
	cmd    *exec.Cmd
	output bytes.Buffer
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
	s := &Server{tb: tb, dir: dir, port: FreePort(tb)}
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
	s.output.Reset()
	s.cmd = exec.Command(binary, s.args...)
	s.cmd.Stdout, s.cmd.Stderr = &s.output, &s.output
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		s.tb.Fatal(err)
	}
	s.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) {
		defer close(ended)
		s.result = cmd.Wait()
	}(s.cmd, s.ended)
	Within(s.tb, "the server to listen", func() bool {
		select {
		case <-s.ended:
			s.cmd = nil
			s.tb.Fatalf("the server does not start: %v: %s", s.result, &s.output)
		default:
		}
		c, err := net.Dial("unix", s.Socket())
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

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

// given are the ports that FreePort has given out in this process.
var given sync.Map

// FreePort is a port of the loopback interface that nobody listens on, and none that a test of this process was given before. It
// lies below those that systems give out by themselves, to listeners on port 0 and to connections: between now and its use, and
// while a server that listens there is ended and started again, nobody is likely to take it.
func FreePort(tb testing.TB) string {
	tb.Helper()
	var err error
	for range 1000 {
		port := strconv.Itoa(10_000 + rand.IntN(20_000))
		if _, twice := given.LoadOrStore(port, true); twice {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			_ = l.Close()
			return port
		}
	}
	tb.Fatal("no port is free: ", err)
	return ""
}

// Within waits for what comes soon; that it takes longer than two minutes is a failure, also of a machine with much else to do.
func Within(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	for end := time.Now().Add(2 * time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("waited in vain for %s", what)
		}
	}
}
