//go:build unix

// Package postgrestest runs the real PostgreSQL server for tests.
package postgrestest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver that Database uses

	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/internal/syncbuf"
)

// Server is a real server on a Unix socket in its own folder. It has the default settings, so it syncs to disk.
type Server struct {
	bin, folder string
	as          *syscall.SysProcAttr // the user to run as: the server refuses to run as root
	running     *exec.Cmd
	ended       chan struct{} // closed when running has ended
	log         *syncbuf.Buffer
	databases   atomic.Int64
}

// Password is that of the server's only user.
const Password = "pass%word'7"

// Start starts a server for one test, which ends with the test. It skips the test if the server is not installed.
func Start(tb testing.TB) *Server {
	tb.Helper()
	s, err := New()
	s = usable(tb, s, err)
	tb.Cleanup(s.Remove)
	return s
}

// Shared is a server for all tests of a package that do not stop it. The zero value has not been started.
type Shared struct {
	once   sync.Once
	server *Server
	err    error
}

// Start returns the server, which the first call starts. It skips the test if the server is not installed.
func (s *Shared) Start(tb testing.TB) *Server {
	tb.Helper()
	s.once.Do(func() { s.server, s.err = New() })
	return usable(tb, s.server, s.err)
}

// Remove stops the server if it was started.
func (s *Shared) Remove() {
	if s.server != nil {
		s.server.Remove()
	}
}

// usable skips the test if the server is not installed, and fails it if it could not be started.
func usable(tb testing.TB, s *Server, err error) *Server {
	tb.Helper()
	if errors.Is(err, os.ErrNotExist) {
		tb.Skip(err)
	} else if err != nil {
		tb.Fatal(err)
	}
	return s
}

// New makes a server and starts it. It fails with os.ErrNotExist if the server is not installed.
func New() (*Server, error) {
	programs, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if path, err := exec.LookPath("postgres"); err == nil {
		programs = append(programs, path)
	}
	if len(programs) == 0 {
		return nil, fmt.Errorf("the PostgreSQL server is not installed (apt-get install postgresql): %w", os.ErrNotExist)
	}
	folder, err := os.MkdirTemp("", "pg")
	if err != nil {
		return nil, err
	}
	s := &Server{bin: filepath.Dir(programs[len(programs)-1]), folder: folder, as: &syscall.SysProcAttr{}}
	if err := s.create(); err != nil {
		_ = os.RemoveAll(folder)
		return nil, err
	}
	return s, nil
}

// create makes the server's files and starts it.
func (s *Server) create() error {
	if os.Geteuid() == 0 {
		account, err := user.Lookup("postgres")
		if err != nil {
			return err
		}
		uid, _ := strconv.ParseUint(account.Uid, 10, 32)
		gid, _ := strconv.ParseUint(account.Gid, 10, 32)
		s.as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(s.folder, int(uid), int(gid)); err != nil {
			return err
		}
	}
	passwords := filepath.Join(s.folder, "pw")
	if err := os.WriteFile(passwords, []byte(Password), 0o644); err != nil {
		return err
	}
	out, err := s.command("initdb", "-D", filepath.Join(s.folder, "data"), "-U", "onecall", "-A", "scram-sha-256", "--pwfile", passwords).
		CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return s.Restart()
}

func (s *Server) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(s.bin, name), args...)
	c.Dir, c.SysProcAttr = s.folder, s.as
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8"}
	return c
}

// Restart starts a server that was stopped, and returns when the server takes connections.
func (s *Server) Restart() error {
	s.log = new(syncbuf.Buffer)
	s.running = s.command("postgres", "-D", filepath.Join(s.folder, "data"), "-k", s.folder, "-c", "listen_addresses=")
	s.running.Stderr = s.log
	if err := s.running.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), polltest.TooLong)
	defer cancel()
	s.ended = make(chan struct{})
	go func(running *exec.Cmd, ended chan struct{}) {
		defer close(ended)
		_ = running.Wait()
		cancel()
	}(s.running, s.ended)
	if s.log.Await(ctx, takesConnections, 1) != nil {
		return nil
	}
	s.Stop(syscall.SIGKILL)
	return fmt.Errorf("the server does not start: %s", s.log)
}

// takesConnections matches the line by which the server says that it takes connections.
var takesConnections = regexp.MustCompile("database system is ready to accept connections")

// Folder returns the folder of the server's socket, which is where it is in messages.
func (s *Server) Folder() string { return s.folder }

// Stop ends the server with a signal: SIGINT for a fast shutdown, SIGQUIT for an immediate one.
func (s *Server) Stop(signal syscall.Signal) {
	_ = s.running.Process.Signal(signal)
	<-s.ended
}

// Remove ends the server and removes its folder.
func (s *Server) Remove() {
	s.Stop(syscall.SIGQUIT)
	os.RemoveAll(s.folder)
}

func (s *Server) url(database string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword("onecall", Password), Path: "/" + database,
		RawQuery: "connect_timeout=60&host=" + url.QueryEscape(s.folder)} // a busy machine answers late
	return u.String()
}

// Database makes an empty database and returns its URL.
func (s *Server) Database(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprint("test", s.databases.Add(1))
	db, err := sql.Open("pgx", s.url("postgres"))
	if err != nil {
		tb.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE DATABASE " + name); err != nil {
		tb.Fatal(err)
	}
	return s.url(name)
}
