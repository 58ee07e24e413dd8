//go:build unix

// Package postgrestest runs the real PostgreSQL server for tests.
package postgrestest

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // by which it is asked whether it answers
)

// Server is a real server on a Unix socket in a folder of its own, with its default settings: it syncs.
type Server struct {
	bin, folder string
	as          *syscall.SysProcAttr // it refuses to run as the superuser
	running     *exec.Cmd
	log         bytes.Buffer
	databases   atomic.Int64
}

// Password is that of the server's only user.
const Password = "pass%word'7"

// Start starts a server that the test alone uses, and that ends with it. Without the server's programs the test is skipped.
func Start(tb testing.TB) *Server {
	tb.Helper()
	s, err := New()
	s = Usable(tb, s, err)
	tb.Cleanup(s.Remove)
	return s
}

// Usable skips the test if the server is not installed, and fails it if it could not be started.
func Usable(tb testing.TB, s *Server, err error) *Server {
	tb.Helper()
	if errors.Is(err, os.ErrNotExist) {
		tb.Skip(err)
	} else if err != nil {
		tb.Fatal(err)
	}
	return s
}

// New makes a server and starts it; os.ErrNotExist: it is not installed.
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
	if os.Geteuid() == 0 {
		account, err := user.Lookup("postgres")
		if err != nil {
			return nil, err
		}
		uid, _ := strconv.ParseUint(account.Uid, 10, 32)
		gid, _ := strconv.ParseUint(account.Gid, 10, 32)
		s.as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(folder, int(uid), int(gid)); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "pw"), []byte(Password), 0o644); err != nil {
		return nil, err
	}
	made := s.command("initdb", "-D", filepath.Join(folder, "data"), "-U", "onecall", "-A", "scram-sha-256", "--pwfile",
		filepath.Join(folder, "pw"))
	out, err := made.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return s, s.Restart()
}

func (s *Server) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(s.bin, name), args...)
	c.Dir, c.SysProcAttr = s.folder, s.as
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8"}
	return c
}

// Restart starts a server that was stopped, and returns when the server takes connections.
func (s *Server) Restart() error {
	s.running = s.command("postgres", "-D", filepath.Join(s.folder, "data"), "-k", s.folder, "-c", "listen_addresses=")
	s.running.Stderr = &s.log
	if err := s.running.Start(); err != nil {
		return err
	}
	db, err := sql.Open("pgx", s.url("postgres"))
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := db.PingContext(ctx); err == nil {
			return nil
		} else if ctx.Err() != nil {
			return fmt.Errorf("the server does not answer: %w", err)
		}
		<-tick.C
	}
}

// Stop ends the server with a signal: SIGINT as its administrators do, SIGQUIT without ado.
func (s *Server) Stop(signal syscall.Signal) {
	_ = s.running.Process.Signal(signal)
	_ = s.running.Wait()
}

// Remove ends the server and removes what it kept.
func (s *Server) Remove() {
	s.Stop(syscall.SIGQUIT)
	os.RemoveAll(s.folder)
}

func (s *Server) url(database string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword("onecall", Password), Path: "/" + database,
		RawQuery: "host=" + url.QueryEscape(s.folder)}
	return u.String()
}

// Database makes an empty database, and gives its URL.
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
