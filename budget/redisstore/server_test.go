package redisstore_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/redisstore"
)

// server is a real server in a folder of its own.
type server struct {
	tb     testing.TB
	dir    string
	port   string
	args   []string
	cmd    *exec.Cmd
	output bytes.Buffer
	ended  chan error
}

// startServer starts the real server on a free port and a socket, with nothing written to the disk unless args say so.
func startServer(tb testing.TB, args ...string) *server {
	tb.Helper()
	dir, err := os.MkdirTemp("", "redis") // the path of a socket must be short
	if err != nil {
		tb.Fatal(err)
	}
	s := &server{tb: tb, dir: dir, port: freePort(tb)}
	s.args = append([]string{"--port", s.port, "--bind", "127.0.0.1", "--unixsocket", s.socket(), "--dir", dir, "--save", "", "--appendonly", "no"}, args...)
	tb.Cleanup(func() {
		s.kill()
		_ = os.RemoveAll(dir)
	})
	s.start()
	return s
}

func (s *server) start() {
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
	s.ended = make(chan error, 1)
	go func(cmd *exec.Cmd) { s.ended <- cmd.Wait() }(s.cmd)
	within(s.tb, "the server to listen", func() bool {
		select {
		case err := <-s.ended:
			s.cmd = nil
			s.tb.Fatalf("the server does not start: %v: %s", err, &s.output)
		default:
		}
		c, err := net.Dial("unix", s.socket())
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

// kill ends the server as kill -9 does.
func (s *server) kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		<-s.ended
		s.cmd = nil
	}
}

func (s *server) socket() string  { return filepath.Join(s.dir, "s") }
func (s *server) address() string { return "127.0.0.1:" + s.port }
func (s *server) url() string     { return "unix://" + s.socket() }

// client is a plain client of the server, for a look behind the store.
func (s *server) client(tb testing.TB) *redis.Client {
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: s.socket(), Protocol: 2})
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

func freePort(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// within waits for what comes soon; that it takes longer than a minute is a failure.
func within(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("waited in vain for %s", what)
		}
	}
}

func open(tb testing.TB, o redisstore.Options) *redisstore.Store {
	tb.Helper()
	s, err := redisstore.New(&o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func put(t *testing.T, s *redisstore.Store, key string, e budget.Entry) {
	t.Helper()
	if err := s.Put(t.Context(), key, e); err != nil {
		t.Fatalf("Put(%s): %v", key, err)
	}
}

// entry is one that lives for five minutes from a time on.
func entry(now time.Time, value string) budget.Entry {
	return budget.Entry{Owner: "o", Created: now, Expires: now.Add(5 * time.Minute), Value: []byte(value)}
}

// operations does one of each kind and gives the errors.
func operations(ctx context.Context, s *redisstore.Store) map[string]error {
	_, get := s.Get(ctx, "k")
	return map[string]error{
		"Get":    get,
		"Put":    s.Put(ctx, "k", entry(time.Now(), "1")),
		"Touch":  s.Touch(ctx, "k", time.Now().Add(time.Minute)),
		"Delete": s.Delete(ctx, "k"),
		"Ping":   s.Ping(ctx),
	}
}

// proxy is a server between a store and a server, or in place of one.
type proxy struct {
	net.Listener
	serve func(client net.Conn)
	open  sync.WaitGroup
}

func newProxy(tb testing.TB, serve func(client net.Conn)) *proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &proxy{Listener: l, serve: serve}
	p.open.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.open.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	tb.Cleanup(func() {
		_ = l.Close()
		p.open.Wait()
	})
	return p
}

func (p *proxy) url() string { return fmt.Sprintf("redis://onecall:s3cr3t-word@%s/0", p.Addr()) }
