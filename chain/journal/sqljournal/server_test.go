//go:build unix

package sqljournal_test

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
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/chain/journal/journaltest"
	"github.com/onecall-mcp/onecall/chain/journal/sqljournal"
)

// postgresServer is a real server on a Unix socket in a folder of its own, with its default settings: it syncs.
type postgresServer struct {
	bin, folder string
	as          *syscall.SysProcAttr // it refuses to run as the superuser
	running     *exec.Cmd
	log         bytes.Buffer
}

const password = "pass%word'7"

// newPostgres makes a server and starts it; ErrNotExist: it is not installed.
func newPostgres() (*postgresServer, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if path, err := exec.LookPath("postgres"); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("the PostgreSQL server is not installed (apt-get install postgresql): %w", os.ErrNotExist)
	}
	folder, err := os.MkdirTemp("", "pg")
	if err != nil {
		return nil, err
	}
	s := &postgresServer{bin: filepath.Dir(found[len(found)-1]), folder: folder, as: &syscall.SysProcAttr{}}
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
	if err := os.WriteFile(filepath.Join(folder, "pw"), []byte(password), 0o644); err != nil {
		return nil, err
	}
	made := s.command("initdb", "-D", filepath.Join(folder, "data"), "-U", "onecall", "-A", "scram-sha-256", "--pwfile", filepath.Join(folder, "pw"))
	out, err := made.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return s, s.start()
}

func (s *postgresServer) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(s.bin, name), args...)
	c.Dir, c.SysProcAttr = s.folder, s.as
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8"}
	return c
}

// start returns when the server takes connections.
func (s *postgresServer) start() error {
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
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		err = db.PingContext(ctx)
		cancel()
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("the server does not answer: %w", err)
}

// stop ends the server with a signal: SIGINT as its administrators do, SIGQUIT without ado.
func (s *postgresServer) stop(signal syscall.Signal) {
	_ = s.running.Process.Signal(signal)
	_ = s.running.Wait()
}

func (s *postgresServer) remove() {
	s.stop(syscall.SIGQUIT)
	os.RemoveAll(s.folder)
}

func (s *postgresServer) url(database string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword("onecall", password), Path: "/" + database, RawQuery: "host=" + url.QueryEscape(s.folder)}
	return u.String()
}

var databases struct {
	sync.Mutex
	n int
}

// database makes an empty database, and gives its URL.
func (s *postgresServer) database(t testing.TB) string {
	t.Helper()
	databases.Lock()
	defer databases.Unlock()
	databases.n++
	name := fmt.Sprint("test", databases.n)
	db, err := sql.Open("pgx", s.url("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	return s.url(name)
}

var shared struct {
	once   sync.Once
	server *postgresServer
	err    error
}

// sharedPostgres is the server that tests share that leave it running.
func sharedPostgres(t testing.TB) *postgresServer {
	t.Helper()
	shared.once.Do(func() { shared.server, shared.err = newPostgres() })
	return usable(t, shared.server, shared.err)
}

func usable(t testing.TB, s *postgresServer, err error) *postgresServer {
	t.Helper()
	if errors.Is(err, os.ErrNotExist) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	return s
}

// ownPostgres is a server that the test alone uses.
func ownPostgres(t testing.TB) *postgresServer {
	t.Helper()
	s, err := newPostgres()
	s = usable(t, s, err)
	t.Cleanup(s.remove)
	return s
}

func openPostgres(t testing.TB, url string) *sqljournal.Driver {
	t.Helper()
	d, err := sqljournal.OpenPostgres(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestMain(m *testing.M) {
	if done := child(); done {
		return
	}
	code := m.Run()
	if shared.server != nil {
		shared.server.remove()
	}
	os.Exit(code)
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	s := sharedPostgres(t)
	journaltest.Run(t, func(t *testing.T) journaltest.Store {
		url := s.database(t)
		return journaltest.Store{Shared: true, Open: func(t *testing.T) journal.Driver { return openPostgres(t, url) }}
	})
}
