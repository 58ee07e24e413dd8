package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/redisstore"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/internal/porttest"
	"github.com/onecall-mcp/onecall/internal/redisconn/redistest"
)

// cause returns the cause of an error, for the operator of the server.
func cause(err error) string { return fmt.Sprint(errors.Unwrap(err)) }

// wantUnavailable checks that every operation fails with unavailable, that its cause has the words, and that no error shows a secret.
func wantUnavailable(t *testing.T, s *redisstore.Store, words ...string) {
	t.Helper()
	for name, err := range operations(t.Context(), s) {
		if fault.CodeOf(err) != fault.Unavailable {
			t.Errorf("%s: %v, want unavailable", name, err)
			continue
		}
		for _, w := range words {
			if !strings.Contains(cause(err), w) {
				t.Errorf("%s: %v (%s), want %q in the cause", name, err, cause(err), w)
			}
		}
		if strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("%s: the error shows the address to callers: %v", name, err)
		}
		wantNoSecret(t, err)
	}
}

func wantNoErrors(t *testing.T, s *redisstore.Store) {
	t.Helper()
	for name, err := range operations(t.Context(), s) {
		if err != nil && !errors.Is(err, budget.ErrNotFound) { // the operations may come in any order
			t.Errorf("%s: %v, want ErrNotFound or no error", name, err)
		}
	}
}

// A server starts late, is killed and starts again: the store needs no restart, and the results that the server had persisted exist.
func TestKilled(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	server.Kill()
	s := open(t, redisstore.Options{URL: server.TCP()})
	wantUnavailable(t, s, server.Address(), "cannot be reached", "refused")
	server.Restart()
	for round := range 3 {
		var stored sync.Map
		var users sync.WaitGroup
		for user := range 20 { // more than the idle connections that are kept open
			users.Go(func() {
				for i := 0; ; i++ {
					key := fmt.Sprint(round, user, i)
					if err := s.Put(t.Context(), key, entry(time.Now(), key)); err != nil {
						if fault.CodeOf(err) != fault.Unavailable {
							t.Errorf("Put: %v, want unavailable", err)
						}
						return
					}
					stored.Store(key, nil)
				}
			})
		}
		polltest.Until(t, "some results to be stored", func() bool {
			n := 0
			stored.Range(func(any, any) bool {
				n++
				return n < 100
			})
			return n == 100
		})
		server.Kill()
		users.Wait()
		wantUnavailable(t, s, server.Address())
		server.Restart()
		polltest.Until(t, "the server to read its data", func() bool {
			_, err := s.Get(t.Context(), "none", nil)
			return fault.CodeOf(err) != fault.Unavailable
		})
		n := 0
		stored.Range(func(key, _ any) bool {
			n++
			if e, err := s.Get(t.Context(), key.(string), nil); err != nil || string(e.Value) != key {
				t.Errorf("stored result %s was lost: %v", key, err)
			}
			return true
		})
		if n == 0 {
			t.Fatal("no result was stored before the kill")
		}
	}
}

// No operation fails because the server has closed connections meanwhile.
func TestClosedConnections(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, redisstore.Options{URL: server.TCP()})
	client := server.Client(t)
	for range 5 {
		var users sync.WaitGroup
		for range 30 {
			users.Go(func() { wantNoErrors(t, s) })
		}
		users.Wait()
		if n := client.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Val(); n == 0 {
			t.Fatal("the server closed no idle connection: the test proves nothing")
		}
		wantNoErrors(t, s)
	}
}

// An operation fails if the server is silent for too long, but not if it answers slowly and steadily.
func TestSlow(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	direct := open(t, redisstore.Options{URL: server.URL(), Compress: -1})
	large := entry(time.Now(), incompressible(2<<20))
	put(t, direct, "large", large)

	const timeout = 2 * time.Second // twenty times the pause, so that a busy machine does not count as silent
	steady := open(t, redisstore.Options{URL: "redis://" + redistest.Forward(t, server.Address(), 64<<10, 100*time.Millisecond).Address(),
		Timeout: timeout})
	began := time.Now()
	if e, err := steady.Get(t.Context(), "large", nil); err != nil || string(e.Value) != string(large.Value) {
		t.Errorf("Get of a large value from a slow server: %d bytes, %v; want the %d that were put", len(e.Value), err, len(large.Value))
	}
	if took := time.Since(began); took < timeout {
		t.Errorf("the slow read took only %v, want more than the timeout", took)
	}

	// The pause is shorter than an operation may take in all: only the silence ends the operation.
	silent := open(t, redisstore.Options{URL: urlOf(redistest.Forward(t, server.Address(), 64<<10, 2*time.Second)),
		Timeout: 300 * time.Millisecond})
	wantUnavailable(t, silent, "did not answer within 300ms", "127.0.0.1:")
}

// A call returns when its context ends, whatever the server does.
func TestOperationEndsWithContext(t *testing.T) {
	t.Parallel()
	cancelled, cancel := context.WithCancel(t.Context())
	hanging := redistest.NewProxy(t, func(c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, 1))
		cancel() // cancels once an operation is under way
		_, _ = io.Copy(io.Discard, c)
	})
	s := open(t, redisstore.Options{URL: urlOf(hanging), Timeout: time.Hour})
	late, cancelLate := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancelLate()
	for want, ctx := range map[error]context.Context{context.Canceled: cancelled, context.DeadlineExceeded: late} {
		for name, err := range operations(ctx, s) {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		}
	}
	if err := s.Close(); err != nil { // Close waits for the operations whose callers have left, and ends them
		t.Error(err)
	}
}

// Closing a store ends operations under way with ErrClosed.
func TestCloseDuringOperation(t *testing.T) {
	t.Parallel()
	var connected atomic.Int32
	hanging := redistest.NewProxy(t, func(c net.Conn) {
		connected.Add(1)
		_, _ = io.Copy(io.Discard, c)
	})
	s := open(t, redisstore.Options{URL: urlOf(hanging), Timeout: time.Hour})
	failed := make(chan error, 1)
	go func() {
		_, err := s.Get(context.Background(), "k", nil)
		failed <- err
	}()
	polltest.Until(t, "a connection", func() bool { return connected.Load() > 0 })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-failed; !errors.Is(err, budget.ErrClosed) {
		t.Errorf("Get under way during Close: %v, want ErrClosed", err)
	}
}

func TestGarbage(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
		"\x15\x03\x01\x00\x02\x02\x46",
		"\r\n\r\n\r\n\r\n\r\n\r\n",
		"+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n",
		"$-5\r\n", "$9999999999999999999\r\n", "$9223372036854775807\r\n", "$9223372036854775800\r\n*1\r\n",
		"*-5\r\n", "*9223372036854775807\r\n", "*1152921504606846976\r\n:1\r\n",
		"-s3cr3t-word onecall: everything is wrong\r\n",
		"-ERR s3cr3t-word\r\n-ERR s3cr3t-word\r\n-ERR s3cr3t-word\r\n-ERR s3cr3t-word\r\n",
		strings.Repeat("-ERR AUTH\r\n", 3) + strings.Repeat(":1\r\n", 100),
		strings.Repeat("x", 1<<20),
		"",
	} {
		t.Run(fmt.Sprintf("%.12q", answer), func(t *testing.T) {
			t.Parallel()
			for _, closes := range []bool{true, false} {
				proxy := redistest.NewProxy(t, func(c net.Conn) {
					buffer := make([]byte, 1<<16)
					for {
						if _, err := c.Read(buffer); err != nil {
							return
						}
						if _, err := io.WriteString(c, answer); err != nil || closes {
							return
						}
					}
				})
				wantUnavailable(t, open(t, redisstore.Options{URL: urlOf(proxy), Timeout: 200 * time.Millisecond}), "127.0.0.1:")
			}
		})
	}
}

// Errors of the server are explained, and no error shows a secret.
func TestRefused(t *testing.T) {
	t.Parallel()
	secured := redistest.Start(t, strings.Fields("--requirepass other"+
		" --user onecall on >s3cr3t-word ~onecall:results:* resetchannels -@all +@connection +multi"+
		" --user enough on >s3cr3t-word ~onecall:results:* resetchannels -@all "+needed)...)
	full := redistest.Start(t, "--maxmemory", "4mb", "--maxmemory-policy", "noeviction")
	copied := redistest.Start(t, "--replicaof", "127.0.0.1", porttest.Reserve(t))
	clustered := redistest.Start(t, "--cluster-enabled", "yes")
	renamed := redistest.Start(t, "--rename-command", "PEXPIRETIME", "", "--rename-command", "EVAL", "", "--rename-command", "EVALSHA", "",
		"--rename-command", "PING", "")

	wantNoErrors(t, open(t, redisstore.Options{URL: "redis://enough:s3cr3t-word@" + secured.Address()}))
	for name, test := range map[string]struct{ url, want string }{
		"wrong password": {"redis://:s3cr3t-word@" + secured.Address(), "refuses the user or the password"},
		"wrong user":     {"redis://nobody:s3cr3t-word@" + secured.Address(), "refuses the user or the password"},
		"no password":    {"redis://" + secured.Address(), "refuses the user or the password"},
		"socket":         {"unix://nobody:s3cr3t-word@" + secured.Socket(), secured.Socket() + " refuses the user"},
		"database":       {"redis://" + full.Address() + "/99", "has no database of that number"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantUnavailable(t, open(t, redisstore.Options{URL: test.url}), test.want)
		})
	}
	for name, test := range map[string]struct {
		url, want string
		get       bool // a Get fails too
	}{
		"rights":  {"redis://onecall:s3cr3t-word@" + secured.Address(), "does not grant", true},
		"memory":  {"redis://" + full.Address(), "has no memory left", false},
		"copy":    {"redis://" + copied.Address(), "is a copy", false},
		"cluster": {"redis://" + clustered.Address(), "is part of a cluster", true},
		"renamed": {"redis://" + renamed.Address(), "lacks a command", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, redisstore.Options{URL: test.url})
			_, get := s.Get(t.Context(), "k", nil)
			if !test.get && errors.Is(get, budget.ErrNotFound) {
				get = nil
			}
			put := s.Put(t.Context(), "k", entry(time.Now(), incompressible(8<<20)))
			for name, err := range map[string]error{"Get": get, "Put": put} {
				if (name == "Put" || test.get) && (fault.CodeOf(err) != fault.Unavailable || !strings.Contains(cause(err), test.want)) {
					t.Errorf("%s: %v, want unavailable: %s", name, err, test.want)
				}
				wantNoSecret(t, err)
			}
		})
	}
}

// needed has the rights that the documentation tells an operator to grant.
const needed = "+ping +select +multi +exec +set +get +getrange +time +eval +evalsha +exists +setrange +pexpireat +pexpiretime " +
	"+unlink +del +strlen +hget +hset +hmget +hdel +hlen +hkeys +zadd +zincrby +zrem +zcard +zrange +zrangebyscore"
