package replica_test

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

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/redisclient/redistest"
	"github.com/onecall-mcp/onecall/replica"
)

// A server that is killed and comes back, and writes to the disk: the store needs no restart, and all that was answered is
// there.
func TestKilled(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	server.Kill()
	s := open(t, replica.Options{URL: server.TCP()})
	unavailable(t, s, nil, server.Address(), "cannot be reached", "refused")
	server.Restart()
	redistest.Within(t, "the server to be used again", func() bool { return s.Ping(t.Context()) == nil })
	id, state := begin(t, s, "o")
	var sum int64 // of what was answered
	for range 3 {
		var mu sync.Mutex
		var users sync.WaitGroup
		for range 20 {
			users.Go(func() {
				for {
					after, err := state.Add(t.Context(), "tokens", 1)
					mu.Lock()
					sum = max(sum, after)
					mu.Unlock()
					if err != nil {
						if fault.CodeOf(err) != fault.Unavailable {
							t.Errorf("Add: %v, want unavailable", err)
						}
						return
					}
				}
			})
		}
		time.Sleep(50 * time.Millisecond) // of traffic, whose amount does not matter
		server.Kill()
		users.Wait()
		unavailable(t, s, state, server.Address())
		server.Restart()
		redistest.Within(t, "the server to be used again", func() bool { return s.Ping(t.Context()) == nil })
		got, err := find(t, s, id, "o").Read(t.Context(), "tokens")
		if err != nil || got[0] < sum || sum == 0 {
			t.Fatalf("%d were answered, %v are there: %v", sum, got, err)
		}
		works(t, s, state)
	}
}

// A server that forgets: sessions are not found, and their clients begin anew.
func TestForgotten(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, replica.Options{URL: server.TCP()})
	id, state := begin(t, s, "o")
	if take(t, s, "o", 0.01, 1) != 0 || take(t, s, "o", 0.01, 1) == 0 {
		t.Fatal("the rate is not held")
	}
	server.Kill()
	server.Restart()
	redistest.Within(t, "the server to be used again", func() bool { return s.Ping(t.Context()) == nil })
	if _, err := s.Session(t.Context(), id, "o"); fault.CodeOf(err) != fault.TokenExpired {
		t.Errorf("Session: %v, want token_expired", err)
	}
	if _, err := state.Add(t.Context(), "tokens", 1); fault.CodeOf(err) != fault.TokenExpired {
		t.Errorf("Add: %v, want token_expired", err)
	}
	if wait := take(t, s, "o", 0.01, 1); wait != 0 {
		t.Errorf("to wait %v", wait)
	}
	again, fresh := begin(t, s, "o")
	if again == id {
		t.Error("an id comes twice")
	}
	add(t, fresh, "tokens", 1, 1)
}

// A slow server is waited for no longer than the timeout, however it is slow.
func TestSlow(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	id, _ := begin(t, open(t, replica.Options{URL: server.URL()}), "o")
	const timeout = 300 * time.Millisecond
	for name, proxy := range map[string]*redistest.Proxy{
		"silent":  redistest.NewProxy(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }),
		"late":    redistest.Forward(t, server.Address(), 64<<10, 2*timeout),
		"trickle": redistest.Forward(t, server.Address(), 1, timeout/2), // which is never silent for long
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, replica.Options{URL: "redis://onecall:s3cr3t-word@" + proxy.Address(), Timeout: timeout})
			began := time.Now()
			unavailable(t, s, nil, "did not answer within 300ms")
			if took := time.Since(began); took > 5*4*timeout {
				t.Errorf("five operations took %v", took)
			}
		})
	}
	t.Run("bearable", func(t *testing.T) {
		t.Parallel()
		s := open(t, replica.Options{URL: "redis://" + redistest.Forward(t, server.Address(), 64<<10, 50*time.Millisecond).Address()})
		works(t, s, find(t, s, id, "o"))
	})
}

// A caller leaves when its context ends, with a code.
func TestLeaves(t *testing.T) {
	t.Parallel()
	hanging := redistest.NewProxy(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	s := open(t, replica.Options{URL: "redis://" + hanging.Address(), Timeout: time.Hour})
	cancelled, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	late, cancelLate := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancelLate()
	for ctx, want := range map[context.Context]struct {
		code  fault.Code
		cause error
	}{cancelled: {fault.Cancelled, context.Canceled}, late: {fault.Timeout, context.DeadlineExceeded}} {
		for name, err := range operations(ctx, s, nil) {
			if fault.CodeOf(err) != want.code || !errors.Is(err, want.cause) {
				t.Errorf("%s: %v, want %s", name, err, want.code)
			}
		}
	}
}

func TestGarbage(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", "+OK\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", "*1\r\n:1\r\n", "*1\r\n:7\r\n", "*2\r\n:1\r\n$1\r\nx\r\n",
		"*3\r\n:1\r\n:1\r\n:1\r\n", "*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n", "*4\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n", ":1\r\n:1\r\n:1\r\n:1\r\n:1\r\n", "*9223372036854775807\r\n",
		"-ERR s3cr3t-word\r\n", "",
	} {
		t.Run(fmt.Sprintf("%.12q", answer), func(t *testing.T) {
			t.Parallel()
			babbler := redistest.NewProxy(t, func(c net.Conn) {
				buffer := make([]byte, 1<<16)
				for {
					if _, err := c.Read(buffer); err != nil {
						return
					}
					if _, err := io.WriteString(c, answer); err != nil {
						return
					}
				}
			})
			s := open(t, replica.Options{URL: "redis://" + babbler.Address(), Timeout: 200 * time.Millisecond})
			state, err := s.Session(t.Context(), "id", "o")
			if err == nil && !strings.HasPrefix(answer, ":1") {
				t.Errorf("a session in %q", answer)
			}
			for name, err := range operations(t.Context(), s, state) {
				if code := fault.CodeOf(err); err != nil && code != fault.Unavailable && (code != fault.TokenExpired || answer == "") {
					t.Errorf("%s: %v, want unavailable", name, err)
				}
				if err != nil && strings.Contains(err.Error()+cause(err), "s3cr3t") {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
}

// needed are the rights that the documentation tells an operator to grant.
const needed = "+ping +select +eval +evalsha +time +get +set +hget +hset +hmget +hlen +hincrby +pttl +pexpireat +pexpiretime +unlink +zadd +zrem +zcard +zrangebyscore +zremrangebyscore"

// What the server refuses is told in words, and no error tells a secret.
func TestRefused(t *testing.T) {
	t.Parallel()
	secured := redistest.Start(t, strings.Fields("--requirepass other"+
		" --user onecall on >s3cr3t-word ~onecall:shared:* resetchannels -@all +@connection"+
		" --user enough on >s3cr3t-word ~onecall:shared:* resetchannels -@all "+needed)...)
	copied := redistest.Start(t, "--replicaof", "127.0.0.1", redistest.FreePort(t))
	url := func(user string) string { return "redis://" + user + ":s3cr3t-word@" + secured.Address() }

	s := open(t, replica.Options{URL: url("enough")})
	_, state := begin(t, s, "o")
	works(t, s, state)
	values := map[string]int64{}
	for i := range replica.MaxFamily + 1 {
		values[fmt.Sprint("a:", i)] = 1
	}
	if err := state.Raise(t.Context(), values); err != nil { // which makes room
		t.Error(err)
	}
	for i := range 3 {
		if _, err := s.Begin(t.Context(), "many", 2, 0); (err != nil) != (i == 2) {
			t.Error(err)
		}
	}
	for name, test := range map[string]struct{ url, want string }{
		"wrong password": {"redis://:s3cr3t-word@" + secured.Address(), "refuses the user or the password"},
		"wrong user":     {url("nobody"), "refuses the user or the password"},
		"no password":    {secured.TCP(), "refuses the user or the password"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			unavailable(t, open(t, replica.Options{URL: test.url}), nil, test.want)
		})
	}
	for name, test := range map[string]struct{ url, want string }{
		"rights": {url("onecall"), "does not grant"},
		"copy":   {copied.TCP(), "is a copy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, replica.Options{URL: test.url})
			_, began := s.Begin(t.Context(), "o", 1, 0)
			_, took := s.Take(t.Context(), "o", 1, 1)
			for name, err := range map[string]error{"Begin": began, "Take": took} {
				if fault.CodeOf(err) != fault.Unavailable || !strings.Contains(cause(err), test.want) || strings.Contains(cause(err), "s3cr3t") {
					t.Errorf("%s: %v, want unavailable: %s", name, err, test.want)
				}
			}
		})
	}
}

// A server without memory refuses what is new and says so; the sessions that there are can be read, live on and be ended.
func TestNoMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--maxmemory-policy", "noeviction")
	client := server.Client(t)
	s := open(t, replica.Options{URL: server.URL()})
	id, state := begin(t, s, "o")
	add(t, state, "tokens", 5, 5)
	limit := func(bytes string) {
		if err := client.ConfigSet(t.Context(), "maxmemory", bytes).Err(); err != nil {
			t.Fatal(err)
		}
	}
	limit("1")
	for name, err := range map[string]error{
		"Begin": func() error { _, err := s.Begin(t.Context(), "o", 0, 0); return err }(),
		"Add":   func() error { _, err := state.Add(t.Context(), "tokens", 1); return err }(),
		"Raise": state.Raise(t.Context(), map[string]int64{"a:b": 1}),
		"Take":  func() error { _, err := s.Take(t.Context(), "o", 1, 1); return err }(),
	} {
		if fault.CodeOf(err) != fault.Unavailable || !strings.Contains(cause(err), "has no memory left") {
			t.Errorf("%s: %v, want unavailable", name, err)
		}
	}
	key, index := s.Keys(id, "o")
	if err := client.PExpire(t.Context(), key, time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	reads(t, find(t, s, id, "o"), "tokens", 5)
	if left := client.PTTL(t.Context(), key).Val(); left < 29*time.Minute {
		t.Errorf("it lives on for %v", left)
	}
	if left := client.PTTL(t.Context(), index).Val(); left < 29*time.Minute {
		t.Errorf("the index lives on for %v", left)
	}
	limit("0")
	works(t, s, state)
	limit("1")
	if err := s.End(t.Context(), id, "o"); err != nil {
		t.Error(err)
	}
	if _, err := s.Session(t.Context(), id, "o"); fault.CodeOf(err) != fault.TokenExpired {
		t.Errorf("after End: %v", err)
	}
}

// An operation whose connection breaks after the server was told is run again: a session is begun once, and what is added is
// added at least once.
func TestBroken(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var breaks atomic.Bool
	proxy := redistest.NewProxy(t, func(client net.Conn) {
		server, err := net.Dial("tcp", server.Address())
		if err != nil {
			return
		}
		defer server.Close()
		go func() {
			_, _ = io.Copy(server, client)
			_ = server.Close()
		}()
		buffer := make([]byte, 1<<16)
		for {
			n, err := server.Read(buffer)
			if err != nil || breaks.CompareAndSwap(true, false) {
				return
			}
			_, _ = client.Write(buffer[:n])
		}
	})
	s := open(t, replica.Options{URL: "redis://" + proxy.Address()})
	warm, warmed := begin(t, s, "warm") // the server knows the scripts from now on
	add(t, warmed, "x", 1, 1)
	works(t, s, warmed)
	if err := s.End(t.Context(), warm, "warm"); err != nil {
		t.Fatal(err)
	}

	broken := func(operation func() error) {
		t.Helper()
		breaks.Store(true)
		if err := operation(); err != nil || breaks.Load() {
			t.Fatalf("with a broken connection (%t): %v", !breaks.Load(), err)
		}
	}
	var id string
	broken(func() (err error) { id, err = s.Begin(t.Context(), "o", 1, 0); return err })
	if _, err := s.Begin(t.Context(), "o", 1, 0); fault.CodeOf(err) != fault.Busy {
		t.Errorf("a second of 1: %v, want busy", err)
	}
	state := find(t, s, id, "o")
	broken(func() error { return state.Raise(t.Context(), map[string]int64{"a:b": 3}) })
	reads(t, state, "a:b", 3)
	broken(func() error {
		sum, err := state.Add(t.Context(), "tokens", 5)
		if err == nil && sum != 5 && sum != 10 {
			t.Errorf("5 were added, the sum is %d", sum)
		}
		return err
	})
	broken(func() error { return s.End(t.Context(), id, "o") })
	if keys := server.Client(t).Keys(t.Context(), replica.DefaultPrefix+"{*").Val(); len(keys) != 2 { // that of operations and its index
		t.Errorf("%q are left", keys)
	}
}
