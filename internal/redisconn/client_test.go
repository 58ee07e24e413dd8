package redisconn_test

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

	"github.com/redis/go-redis/v9"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/internal/redisconn"
	"github.com/onecall-mcp/onecall/internal/redisconn/redistest"
)

// usual is a timeout that a working server never reaches.
const usual = 2 * time.Second

func open(t *testing.T, o redisconn.Options) *redisconn.Client {
	t.Helper()
	o.Name = "larder"
	if o.Timeout == 0 {
		o.Timeout = usual
	}
	c, err := redisconn.New(&o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// ping pings a server as a long operation.
func ping(ctx context.Context, c *redisconn.Client) error {
	return c.Do(ctx, func(ctx context.Context, s *redis.Client) error { return s.Ping(ctx).Err() }, func() {})
}

// Errors name the purpose of the server, and show nothing of the URL.
func TestOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []redisconn.Options{
		{}, {URL: "s3cr3t-word"}, {URL: "http://onecall:s3cr3t-word@h"}, {URL: "redis://onecall:s3cr3t-word@h:port"},
		{URL: "redis://onecall:s3cr3t-word#1@h"}, {URL: "redis://onecall:s3cr3t-word%zz@h"}, {URL: "redis://h?password=s3cr3t-word"},
		{URL: "unix://onecall:s3cr3t-word@host/s"}, {URL: "redis://h", Timeout: time.Microsecond}, {URL: "redis://h", Timeout: -1},
		{URL: "redis://h", LongTimeout: time.Millisecond}, {URL: "redis://h", Prefix: strings.Repeat("p", 201)},
	} {
		o.Name = "larder"
		if o.Timeout == 0 {
			o.Timeout = time.Second
		}
		c, err := redisconn.New(&o)
		if fault.CodeOf(err) != fault.BadRequest || c != nil || !strings.Contains(err.Error(), "larder") ||
			strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("New(%+v): %v, want bad_request", o, err)
		}
	}
	if c := open(t, redisconn.Options{URL: "redis://h", Prefix: "p:"}); c.Key("k") != "p:k" {
		t.Errorf("the key is %q, want p:k", c.Key("k"))
	}
}

// An operation's own errors are passed on. Errors of the server or the network are unavailable: the message names the server's purpose,
// and the cause its address and what is wrong.
func TestErrors(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := open(t, redisconn.Options{URL: server.TCP()})
	ourFault := fault.New(fault.LimitExceeded, "too much")
	for name, test := range map[string]struct {
		operation func(context.Context, *redis.Client) error
		is        error
		words     string
	}{
		"done":    {func(ctx context.Context, s *redis.Client) error { return s.Set(ctx, "k", "v", 0).Err() }, nil, ""},
		"nothing": {func(ctx context.Context, s *redis.Client) error { return s.Get(ctx, "none").Err() }, redis.Nil, ""},
		"coded":   {func(context.Context, *redis.Client) error { return ourFault }, ourFault, ""},
		"refused": {func(ctx context.Context, s *redis.Client) error { return s.Do(ctx, "s3cr3t").Err() }, nil, "lacks a command"},
		"panic":   {func(context.Context, *redis.Client) error { panic("s3cr3t") }, nil, "does not answer as Redis does"},
		"strange": {func(context.Context, *redis.Client) error { return errors.New("s3cr3t") }, nil, "does not answer as Redis does"},
	} {
		err := c.Do(t.Context(), test.operation, func() {})
		switch {
		case test.words == "" && !errors.Is(err, test.is):
			t.Errorf("%s: %v, want %v", name, err, test.is)
		case test.words != "" && (fault.CodeOf(err) != fault.Unavailable ||
			!strings.HasPrefix(cause(err), "the larder at "+server.Address()+" "+test.words)):
			t.Errorf("%s: %v (%s), want unavailable: %s", name, err, cause(err), test.words)
		case test.words != "" && err.Error() != "unavailable: The larder cannot be reached now: try again in a few seconds.":
			t.Errorf("%s: got message %q for callers, want that the larder cannot be reached", name, err)
		case err != nil && strings.Contains(fmt.Sprintf("%+v %s", err, cause(err)), "s3cr3t"):
			t.Errorf("%s: the error shows a secret: %v", name, err)
		}
	}
}

// cause returns the cause of an error, which is for operators.
func cause(err error) string { return fmt.Sprint(errors.Unwrap(err)) }

// An operation that the server refuses is not repeated: only one whose connection the server had closed is.
func TestRefusalIsNotRetried(t *testing.T) {
	t.Parallel()
	var pings atomic.Int32
	loading := redistest.NewProxy(t, func(c net.Conn) {
		buffer := make([]byte, 1<<10)
		for {
			n, err := c.Read(buffer)
			if err != nil {
				return
			}
			pings.Add(int32(strings.Count(strings.ToLower(string(buffer[:n])), "ping")))
			if _, err := io.WriteString(c, "-LOADING s3cr3t\r\n"); err != nil {
				return
			}
		}
	})
	c := open(t, redisconn.Options{URL: "redis://" + loading.Address()})
	if err := ping(t.Context(), c); fault.CodeOf(err) != fault.Unavailable || !strings.HasSuffix(cause(err), "is still reading its data") {
		t.Errorf("got %v (%s), want unavailable: is still reading its data", err, cause(err))
	}
	if n := pings.Load(); n != 1 {
		t.Errorf("the server got %d pings, want 1", n)
	}
}

// An operation does not fail because of the pool's closed connections, however many there are. It fails if the server closes every
// connection.
func TestClosedConnectionsAreRetried(t *testing.T) {
	t.Parallel()
	c := open(t, redisconn.Options{URL: "redis://h"})
	for closed, want := range map[int]fault.Code{32: "", 33: fault.Unavailable} {
		n := 0
		err := c.DoShort(t.Context(), func(context.Context, *redis.Client) error {
			if n++; n <= closed {
				return io.EOF
			}
			return nil
		})
		if fault.CodeOf(err) != want || n != 33 {
			t.Errorf("with %d closed connections: %v after %d attempts, want 33", closed, err, n)
		}
	}
}

// A transaction returns the error of the refused command, and runs none of its commands.
func TestTransaction(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := open(t, redisconn.Options{URL: server.URL()})
	err := c.Do(t.Context(), func(ctx context.Context, s *redis.Client) error {
		return redisconn.Transaction(ctx, s, func(tx redis.Pipeliner) {
			tx.Set(ctx, "k", "v", 0)
			tx.Do(ctx, "NOSUCHCOMMAND")
		})
	}, func() {})
	if fault.CodeOf(err) != fault.Unavailable || !strings.Contains(cause(err), "lacks a command") {
		t.Errorf("got %v, want the error of the unknown command", err)
	}
	if n := server.Client(t).Exists(t.Context(), "k").Val(); n != 0 {
		t.Error("a command of the failed transaction was run")
	}
}

// A long operation may last longer than Timeout, but no longer than LongTimeout. The error names the bound that ended it.
func TestBounds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	if err := server.Client(t).Set(t.Context(), "large", make([]byte, 1<<20), 0).Err(); err != nil {
		t.Fatal(err)
	}
	slow := redistest.Forward(t, server.Address(), 32<<10, 100*time.Millisecond)
	silent := redistest.NewProxy(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	for _, test := range []struct {
		address string
		longest time.Duration
		name    string
	}{{slow.Address(), 0, ""}, {slow.Address(), 2500 * time.Millisecond, "2.5s"}, {silent.Address(), time.Hour, "2s"}} {
		c := open(t, redisconn.Options{URL: "redis://" + test.address, Timeout: 2 * time.Second, LongTimeout: test.longest})
		began := time.Now()
		err := c.Do(t.Context(), func(ctx context.Context, s *redis.Client) error { return s.Get(ctx, "large").Err() }, func() {})
		switch took := time.Since(began); {
		case test.name == "" && err != nil:
			t.Errorf("with LongTimeout %v: got %v (%s), want no error", test.longest, err, cause(err))
		case test.name == "" && took < 2*time.Second:
			t.Errorf("the read took %v, want longer than Timeout", took)
		case test.name != "" && (fault.CodeOf(err) != fault.Unavailable || !strings.HasSuffix(cause(err), "did not answer within "+test.name)):
			t.Errorf("got %v (%s), want the timeout %s named", err, cause(err), test.name)
		}
	}
}

// A caller returns when its context ends. Close ends operations in progress, and nothing runs after it.
func TestCancelAndClose(t *testing.T) {
	t.Parallel()
	var connected atomic.Int32
	ctx, cancel := context.WithCancel(t.Context())
	hanging := redistest.NewProxy(t, func(c net.Conn) {
		connected.Add(1)
		_, _ = io.ReadFull(c, make([]byte, 1))
		cancel()
		_, _ = io.Copy(io.Discard, c)
	})
	c := open(t, redisconn.Options{URL: "redis://" + hanging.Address(), Timeout: time.Hour})
	if err := ping(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("Ping: %v, want the error of its context", err)
	}
	var all sync.WaitGroup
	var running atomic.Int32
	for range 5 {
		all.Go(func() {
			err := c.Do(context.Background(), func(ctx context.Context, s *redis.Client) error {
				running.Add(1)
				defer running.Add(-1)
				return s.Ping(ctx).Err()
			}, func() {})
			if !errors.Is(err, redisconn.ErrClosed) {
				t.Errorf("an operation in progress: %v, want ErrClosed", err)
			}
		})
	}
	polltest.Until(t, "connections", func() bool { return connected.Load() > 5 })
	c.Close()
	if n := running.Load(); n != 0 {
		t.Errorf("%d operations still run after Close", n)
	}
	all.Wait()
	c.Close()
	if err := ping(t.Context(), c); !errors.Is(err, redisconn.ErrClosed) {
		t.Errorf("Ping after Close: %v, want ErrClosed", err)
	}
}
