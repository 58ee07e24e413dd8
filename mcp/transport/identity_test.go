package transport_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// echo is a call without a session.
const echo = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"chain","arguments":{"steps":[{"fn":"shop.echo","args":{"text":"x"}}]}` + mcptest.StatelessMeta + `}}`

func echoHeaders(token string) mcptest.Header {
	return mcptest.Header{"Content-Type": "application/json", "Mcp-Method": "tools/call", "Mcp-Name": "chain",
		"Mcp-Protocol-Version": "2026-07-28", "Authorization": "Bearer " + token}
}

// TestIdentifiedOnce: a sender is identified once, and again only if its rights may have changed while it sent.
func TestIdentifiedOnce(t *testing.T) {
	t.Parallel()
	forget := func(_ *testServer, k *testKeys) { // does what reading a file that lacks the callers would do
		k.mu.Lock()
		defer k.mu.Unlock()
		k.known = mcptest.Callers{}
	}
	for name, test := range map[string]struct {
		meanwhile        func(*testServer, *testKeys)
		status, verified int
	}{
		"no change":           {func(*testServer, *testKeys) {}, 200, 1},
		"just under a second": {func(s *testServer, k *testKeys) { forget(s, k); time.Sleep(time.Second - 1) }, 200, 1},
		"a second":            {func(s *testServer, k *testKeys) { forget(s, k); time.Sleep(time.Second) }, 401, 2},
		"the token expires":   {func(*testServer, *testKeys) { time.Sleep(700 * time.Millisecond) }, 401, 2},
		"other keys":          {func(s *testServer, k *testKeys) { k.revoke("ann"); s.RecheckCallers() }, 401, 2},
		"the same keys":       {func(s *testServer, k *testKeys) { k.revoke("bob"); s.RecheckCallers() }, 200, 2},
		"another access":      {func(s *testServer, _ *testKeys) { s.SetAccess(&transport.Access{Callers: mcptest.Callers{}}) }, 401, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, k := serve(t, nil), newKeyring()
				if name == "the token expires" {
					k.setExpiry("ann", 500*time.Millisecond)
				}
				url := s.inMemory(t, &transport.Access{Callers: k})
				conn := dial(t, url, "POST", transport.Path, echoHeaders("ann"), len(echo))
				synctest.Wait()
				test.meanwhile(s, k)
				status, text := answerTo(t, conn, echo)
				if verified, _, _ := k.counts(); status != test.status || s.shop.calls.Load() != int64(200/status) || verified != test.verified {
					t.Errorf("status %d, want %d; verified %d times, want %d: %s", status, test.status, verified, test.verified, text)
				}
			})
		})
	}
}

// slowCallers are Callers that take a while.
type slowCallers struct {
	mcptest.Callers
	asked  chan struct{} // gets a token when a caller is being verified
	answer chan struct{} // closed when the caller is known
}

func (p *slowCallers) Verify(ctx context.Context, token string) (*steps.Caller, error) {
	select {
	case <-p.answer:
		return p.Callers.Verify(ctx, token)
	case <-ctx.Done():
		return nil, fault.New(fault.Timeout, "the keys did not come in time")
	case p.asked <- struct{}{}:
	}
	select {
	case <-p.answer:
		return p.Callers.Verify(ctx, token)
	case <-ctx.Done():
		return nil, fault.New(fault.Timeout, "the keys did not come in time")
	}
}

// TestSlowCallers: SetAccess does not wait for slow Callers; a call ends once its caller's token turns out to be invalid.
func TestSlowCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, nil)
		url := s.inMemory(t, &transport.Access{Callers: mcptest.Staff})
		ann, bob := slowCall(t, s, url, "ann", true), slowCall(t, s, url, "bob", true)
		p := &slowCallers{mcptest.Callers{"bob": mcptest.Staff["bob"]}, make(chan struct{}), make(chan struct{})}
		s.SetAccess(&transport.Access{Callers: p}) // p does not answer yet
		await(t, "the callers to be verified", p.asked)
		close(p.answer)
		if body := await(t, "the end of the refused call", ann); !strings.Contains(body, "cancelled") {
			t.Errorf("the call was not canceled: %s", body)
		}
		s.shop.finish <- struct{}{}
		if body := await(t, "the end of the permitted call", bob); !strings.Contains(body, "late") {
			t.Errorf("the permitted call did not complete: %s", body)
		}
	})
}

// TestChangedRights: a call ends if the new keys give its caller different rights.
func TestChangedRights(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, k := serve(t, nil), newKeyring()
		url := s.inMemory(t, &transport.Access{Callers: k})
		ann := slowCall(t, s, url, "ann", true)
		k.mu.Lock()
		k.next = maps.Clone(k.known)
		more := *k.next["ann"]
		more.Tier = steps.TierAdmin
		k.next["ann"] = &more
		k.mu.Unlock()
		s.RecheckCallers()
		if body := await(t, "the end of the call", ann); !strings.Contains(body, "cancelled") {
			t.Errorf("the call was not canceled: %s", body)
		}
	})
}
