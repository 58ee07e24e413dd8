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

// TestKeysTakenBackWhileItRuns: a caller's calls and streams end when its key is revoked, even if there are no other requests. Those of
// other callers continue.
func TestKeysTakenBackWhileItRuns(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]func(*testServer){"by itself": func(*testServer) {},
		"when it is told to": func(s *testServer) { s.RecheckCallers() }} {
		for version, stateless := range map[string]bool{"2025-11-25": false, "2026-07-28": true} {
			t.Run(name+", "+version, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s, k := serve(t, nil), newKeyring()
					url := s.inMemory(t, &transport.Access{Callers: k})
					ann, bob := slowCall(t, s, url, "ann", stateless), slowCall(t, s, url, "bob", stateless)
					stream, other := streamOf(t, url, "ann"), streamOf(t, url, "eve")
					k.without("ann")
					how(s)
					if body := soon(t, "the call of whose key is gone ends", ann); !strings.Contains(body, "cancelled") {
						t.Errorf("whose key is gone: %s", body)
					}
					soon(t, "the stream of whose key is gone ends", stream)
					select {
					case body := <-bob:
						t.Errorf("another's call: %s", body)
					case <-other:
						t.Error("another's stream has ended")
					case <-time.After(50 * time.Millisecond):
					}
					if _, _, now := k.count(); (now > 0) != (name != "by itself") {
						t.Errorf("it was to be looked at now %d times", now)
					}
					k.without("bob")
					s.RecheckCallers()
					<-bob
				})
			})
		}
	}
}

// TestNobodyLooks: keys are refreshed only by requests and while something is open.
func TestNobodyLooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, k := serve(t, nil), newKeyring()
		url := s.inMemory(t, &transport.Access{Callers: k})
		if r, body := mcptest.Send(t, "POST", url, mcptest.Hello, mcptest.Header{"Authorization": "Bearer ann"}); r.StatusCode != 200 {
			t.Fatal(body)
		}
		time.Sleep(time.Minute)
		if _, looked, _ := k.count(); looked != 0 {
			t.Errorf("with nothing open it was looked %d times", looked)
		}
		running := slowCall(t, s, url, "ann", true)
		polltest.Until(t, "it is looked again", func() bool { _, looked, _ := k.count(); return looked > 1 })
		s.shop.enough <- struct{}{}
		<-running
	})
}

// TestOtherKeys: new keys under which a caller keeps its rights end nothing, and are checked only once.
func TestOtherKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, k := serve(t, nil), newKeyring()
		url := s.inMemory(t, &transport.Access{Callers: k})
		ann := slowCall(t, s, url, "ann", true)
		k.without("nobody")
		s.RecheckCallers()
		before, _, _ := k.count()
		s.RecheckCallers()
		if after, _, _ := k.count(); after != before {
			t.Errorf("nothing has changed since, and %d tokens were verified", after-before)
		}
		s.shop.enough <- struct{}{}
		if body := <-ann; !strings.Contains(body, "late") {
			t.Errorf("it did not end as it would have: %s", body)
		}
	})
}

// TestExpiredWhileItRuns: a call outlasts its token, even through a change of access, and is canceled when its key is revoked. No
// call begins with the expired token.
func TestExpiredWhileItRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, k := serve(t, nil), newKeyring()
		url := s.inMemory(t, &transport.Access{Callers: k})
		k.expiring("ann", time.Second)
		answered := slowCall(t, s, url, "ann", true)
		time.Sleep(time.Second)
		if r, _ := mcptest.Send(t, "POST", url, mcptest.Hello, mcptest.Header{"Authorization": "Bearer ann"}); r.StatusCode != 401 {
			t.Errorf("it begins a session: %d", r.StatusCode)
		}
		s.SetAccess(&transport.Access{Callers: k})
		k.without("nobody")
		s.RecheckCallers()
		synctest.Wait()
		if len(answered) > 0 {
			t.Errorf("it has ended with its token: %s", <-answered)
		}
		k.without("ann")
		s.RecheckCallers()
		if body := soon(t, "an expired token's call, whose key is gone, ends", answered); !strings.Contains(body, "cancelled") {
			t.Error(body)
		}
	})
}
