package redisconn_test

import (
	"cmp"
	"context"
	"errors"
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
	"github.com/onecall-mcp/onecall/internal/porttest"
	"github.com/onecall-mcp/onecall/internal/redisconn"
	"github.com/onecall-mcp/onecall/internal/redisconn/redistest"
)

// TestHangs: if a server hangs, only operations that have a connection reach it. The others fail when the first ones time out, and later
// ones fail at once, except for occasional trials. When the server answers again, it is used again.
func TestHangs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const patience, connections = time.Second, 32
	c := open(t, redisconn.Options{URL: server.TCP(), Timeout: patience})
	var reached atomic.Int32
	set := func(ctx context.Context, s *redis.Client) error {
		reached.Add(1)
		return s.Set(ctx, "k", "v", 0).Err()
	}
	long := func(ctx context.Context, operation func(context.Context, *redis.Client) error) error {
		return c.Do(ctx, operation, func() {})
	}
	if err := c.DoShort(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	server.Hang()
	for name, do := range map[string]func(context.Context, func(context.Context, *redis.Client) error) error{
		"Do": long, "DoShort": c.DoShort} {
		reached.Store(0)
		var users sync.WaitGroup
		for range 100 {
			users.Go(func() {
				if err := do(t.Context(), set); fault.CodeOf(err) != fault.Unavailable {
					t.Errorf("%s: got %v, want unavailable", name, err)
				}
			})
		}
		users.Wait()
		if n := reached.Load(); n > 2*connections {
			t.Errorf("%s: %d of 100 operations reached the server that hangs, want at most %d", name, n, 2*connections)
		}
		reached.Store(0)
		for range 100 {
			if err := do(t.Context(), set); fault.CodeOf(err) != fault.Unavailable || !strings.HasSuffix(cause(err), "did not answer within 1s") {
				t.Errorf("%s: got %v (%s), want unavailable: did not answer within 1s", name, err, cause(err))
			}
		}
		if n := reached.Load(); n > connections {
			t.Errorf("%s: %d of 100 later operations reached the server, want at most %d", name, n, connections)
		}
	}
	server.Resume()
	polltest.Until(t, "the server is used again", func() bool { return long(t.Context(), set) == nil })
}

// TestTrialIsShort: a long operation never tries whether a server answers again, so it keeps no other waiting.
func TestTrialIsShort(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	gate := redistest.NewGate(t, server.Address(), 1<<20)
	c := open(t, redisconn.Options{URL: "redis://" + gate.Address(), Timeout: 5 * time.Second, LongTimeout: time.Hour})
	if err := server.Client(t).Set(t.Context(), "large", make([]byte, 2<<20), 0).Err(); err != nil {
		t.Fatal(err)
	}
	small := func(ctx context.Context, s *redis.Client) error { return s.Set(ctx, "small", "v", 0).Err() }
	server.Hang()
	if err := c.DoShort(t.Context(), small); fault.CodeOf(err) != fault.Unavailable {
		t.Fatalf("operation on a server that hangs: %v, want unavailable", err)
	}
	server.Resume()
	read := make(chan error, 1)
	go func() {
		var err error
		defer func() { read <- err }()
		polltest.Try(t.Context(), func() bool { // until the server is used again
			err = c.Do(t.Context(), func(ctx context.Context, s *redis.Client) error { return s.Get(ctx, "large").Err() }, func() {})
			return err == nil
		})
	}()
	polltest.Until(t, "the read reaches the gate", func() bool { return len(gate.Reached) > 0 })
	for range 10 {
		if err := c.DoShort(t.Context(), small); err != nil {
			t.Errorf("a short operation during a long one: %v (%s)", err, cause(err))
		}
	}
	gate.Open()
	if err := <-read; err != nil {
		t.Error(err)
	}
}

// TestEnded: the end of an operation is reported once, and not before it ended, whatever its result.
func TestEnded(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	silent := redistest.NewProxy(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	ping := func(ctx context.Context, s *redis.Client) error { return s.Ping(ctx).Err() }
	for name, test := range map[string]struct {
		ctx       context.Context
		url       string
		prepare   func(t *testing.T, c *redisconn.Client)
		operation func(context.Context, *redis.Client) error
	}{
		"done":             {operation: ping},
		"panic":            {operation: func(context.Context, *redis.Client) error { panic("oh") }},
		"unreachable":      {operation: ping, url: "redis://127.0.0.1:" + porttest.Reserve(t)},
		"cancelled before": {operation: ping, ctx: cancelled},
		"closed":           {operation: ping, prepare: func(_ *testing.T, c *redisconn.Client) { c.Close() }},
		"silent": {operation: ping, url: "redis://" + silent.Address(), prepare: func(t *testing.T, c *redisconn.Client) {
			if err := c.DoShort(t.Context(), ping); err == nil {
				t.Error("DoShort of a silent server returned no error")
			}
		}},
		"all connections busy": {operation: ping, prepare: func(t *testing.T, c *redisconn.Client) {
			var connected sync.WaitGroup
			for range 32 {
				connected.Add(1)
				go func() {
					_ = c.Do(t.Context(), func(context.Context, *redis.Client) error {
						connected.Done()
						<-t.Context().Done()
						return nil
					}, func() {})
				}()
			}
			connected.Wait()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := 200 * time.Millisecond
			if name == "done" {
				timeout = usual
			}
			c := open(t, redisconn.Options{URL: cmp.Or(test.url, server.TCP()), Timeout: timeout})
			if test.prepare != nil {
				test.prepare(t, c)
			}
			ctx := test.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			calls := 0
			if err := c.Do(ctx, test.operation, func() { calls++ }); (err == nil) != (name == "done") {
				t.Errorf("got error %v, want an error: %t", err, name != "done")
			}
			if calls != 1 {
				t.Errorf("ended was called %d times, want 1", calls)
			}
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		c := open(t, redisconn.Options{URL: server.TCP(), Timeout: usual})
		ctx, cancel := context.WithCancel(t.Context())
		proceed, ended := make(chan struct{}), make(chan struct{})
		err := c.Do(ctx, func(context.Context, *redis.Client) error {
			cancel()
			<-proceed
			return nil
		}, func() { close(ended) })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v, want %v", err, context.Canceled)
		}
		select {
		case <-ended:
			t.Error("ended was called before the operation returned")
		default:
		}
		close(proceed)
		<-ended
	})
}

// TestShortOperationTimeout: a short operation ends within the timeout even if the server sends its answer slowly. Do would read this one
// for fifteen times as long.
func TestShortOperationTimeout(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	if err := server.Client(t).Set(t.Context(), "large", make([]byte, 1<<20), 0).Err(); err != nil {
		t.Fatal(err)
	}
	c := open(t, redisconn.Options{URL: "redis://" + redistest.NewGate(t, server.Address(), 1<<12).Address(), Timeout: 300 * time.Millisecond})
	err := c.DoShort(t.Context(), func(ctx context.Context, s *redis.Client) error { return s.Get(ctx, "large").Err() })
	if fault.CodeOf(err) != fault.Unavailable || !strings.HasSuffix(cause(err), "did not answer within 300ms") {
		t.Errorf("got %v (%s), want unavailable: did not answer within 300ms", err, cause(err))
	}
}
