package redisclient_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/redisclient"
	"github.com/onecall-mcp/onecall/redisclient/redistest"
)

// TestHangs: however many wait for a server that hangs, for a connection or for an answer, none waits longer in all than for
// one of both; those that come then do not wait, and when it goes on it is used again.
func TestHangs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const patience = time.Second
	c := open(t, redisclient.Options{URL: server.TCP(), Timeout: patience})
	get := func(ctx context.Context, s *redis.Client) error { return s.Set(ctx, "k", "v", 0).Err() }
	if err := c.Do(t.Context(), get); err != nil {
		t.Fatal(err)
	}
	server.Hang()
	for name, do := range map[string]func(context.Context, func(context.Context, *redis.Client) error) error{"Do": c.Do, "Brief": c.Brief} {
		var users sync.WaitGroup
		for range 100 {
			users.Go(func() {
				began := time.Now()
				err := do(t.Context(), get)
				if fault.CodeOf(err) != fault.Unavailable {
					t.Errorf("%s: %v", name, err)
				}
				if took := time.Since(began); took > patience*19/10 {
					t.Errorf("%s took %v", name, took)
				}
			})
		}
		users.Wait()
		began := time.Now()
		for range 20 {
			if err := do(t.Context(), get); fault.CodeOf(err) != fault.Unavailable || !strings.HasSuffix(cause(err), "did not answer within 1s") {
				t.Errorf("%s: %v (%s)", name, err, cause(err))
			}
		}
		if took := time.Since(began); took > 3*patience { // that of one or two trials
			t.Errorf("%s: 20 that came later took %v", name, took)
		}
	}
	server.Go()
	redistest.Within(t, "the server to be used again", func() bool { return c.Do(t.Context(), get) == nil })
}

// TestBriefDoesNotDrip: an operation on little is over within the timeout, also where the server is never silent.
func TestBriefDoesNotDrip(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	trickle := redistest.Forward(t, server.Address(), 1, 100*time.Millisecond)
	c := open(t, redisclient.Options{URL: "redis://" + trickle.Address(), Timeout: 300 * time.Millisecond})
	began := time.Now()
	err := c.Brief(t.Context(), func(ctx context.Context, s *redis.Client) error { return s.Ping(ctx).Err() })
	if fault.CodeOf(err) != fault.Unavailable || !strings.HasSuffix(cause(err), "did not answer within 300ms") {
		t.Errorf("%v (%s)", err, cause(err))
	}
	if took := time.Since(began); took > 4*time.Second { // Do would go on for 4.5 s
		t.Errorf("it took %v", took)
	}
}
