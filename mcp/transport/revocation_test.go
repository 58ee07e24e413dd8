package transport_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
)

// slowCall starts a call that runs until it is canceled, and returns the channel of its answer.
func slowCall(t *testing.T, s *testServer, url, token string, stateless bool) <-chan string {
	t.Helper()
	answered := mcptest.BeginCall(t, url, token, `{"steps":[{"fn":"shop.slow"}]}`, stateless)
	<-s.shop.started
	return answered
}

// TestKeyRevokedDuringCall: a caller's calls and streams end when its key is revoked, even if there are no other requests. Those of
// other callers continue.
func TestKeyRevokedDuringCall(t *testing.T) {
	t.Parallel()
	for name, recheck := range map[string]func(*testServer){"by itself": func(*testServer) {},
		"after RecheckCallers": func(s *testServer) { s.RecheckCallers() }} {
		for version, stateless := range map[string]bool{"2025-11-25": false, "2026-07-28": true} {
			t.Run(name+", "+version, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s, k := serve(t, nil), newKeyring()
					url := s.inMemory(t, &transport.Access{Callers: k})
					ann, bob := slowCall(t, s, url, "ann", stateless), slowCall(t, s, url, "bob", stateless)
					stream, other := openStream(t, url, "ann"), openStream(t, url, "eve")
					k.revoke("ann")
					recheck(s)
					if body := await(t, "the end of the call of the revoked caller", ann); !strings.Contains(body, "cancelled") {
						t.Errorf("the call of the revoked caller was not canceled: %s", body)
					}
					await(t, "the end of the stream of the revoked caller", stream)
					select {
					case body := <-bob:
						t.Errorf("the call of another caller ended: %s", body)
					case <-other:
						t.Error("the stream of another caller ended")
					case <-time.After(50 * time.Millisecond):
					}
					if _, _, immediate := k.counts(); (immediate > 0) != (name != "by itself") {
						t.Errorf("%d immediate refreshes, want any: %t", immediate, name != "by itself")
					}
					k.revoke("bob")
					s.RecheckCallers()
					<-bob
				})
			})
		}
	}
}

// TestNoKeyRefreshWhenIdle: keys are refreshed only by requests and while something is open.
func TestNoKeyRefreshWhenIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, k := serve(t, nil), newKeyring()
		url := s.inMemory(t, &transport.Access{Callers: k})
		if r, body := mcptest.Send(t, "POST", url, mcptest.Hello, mcptest.Header{"Authorization": "Bearer ann"}); r.StatusCode != 200 {
			t.Fatalf("status %d, want 200: %s", r.StatusCode, body)
		}
		time.Sleep(time.Minute)
		if _, refreshes, _ := k.counts(); refreshes != 0 {
			t.Errorf("%d refreshes while nothing is open, want none", refreshes)
		}
		running := slowCall(t, s, url, "ann", true)
		polltest.Until(t, "the keys are refreshed again", func() bool { _, refreshes, _ := k.counts(); return refreshes > 1 })
		s.shop.finish <- struct{}{}
		<-running
	})
}

// TestNewKeysSameRights: new keys under which a caller keeps its rights end nothing, and are checked only once.
func TestNewKeysSameRights(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, k := serve(t, nil), newKeyring()
		url := s.inMemory(t, &transport.Access{Callers: k})
		ann := slowCall(t, s, url, "ann", true)
		k.revoke("nobody")
		s.RecheckCallers()
		before, _, _ := k.counts()
		s.RecheckCallers()
		if after, _, _ := k.counts(); after != before {
			t.Errorf("%d tokens were verified again, want none, as the keys are unchanged", after-before)
		}
		s.shop.finish <- struct{}{}
		if body := <-ann; !strings.Contains(body, "late") {
			t.Errorf("the call did not complete: %s", body)
		}
	})
}

// TestTokenExpiresDuringCall: a call outlasts its token, even through a change of access, and is canceled when its key is revoked. No
// call begins with the expired token.
func TestTokenExpiresDuringCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, k := serve(t, nil), newKeyring()
		url := s.inMemory(t, &transport.Access{Callers: k})
		k.setExpiry("ann", time.Second)
		answered := slowCall(t, s, url, "ann", true)
		time.Sleep(time.Second)
		if r, _ := mcptest.Send(t, "POST", url, mcptest.Hello, mcptest.Header{"Authorization": "Bearer ann"}); r.StatusCode != 401 {
			t.Errorf("a session with an expired token: status %d, want 401", r.StatusCode)
		}
		s.SetAccess(&transport.Access{Callers: k})
		k.revoke("nobody")
		s.RecheckCallers()
		synctest.Wait()
		if len(answered) > 0 {
			t.Errorf("the call ended when its token expired: %s", <-answered)
		}
		k.revoke("ann")
		s.RecheckCallers()
		if body := await(t, "the end of the call after its key is revoked", answered); !strings.Contains(body, "cancelled") {
			t.Errorf("got %s, want cancelled", body)
		}
	})
}
