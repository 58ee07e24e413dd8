package transport

import (
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
)

// slowCall starts a call that runs until it is canceled, and returns the channel of its answer.
func slowCall(t *testing.T, s *testServer, url, token string, stateless bool) <-chan string {
	t.Helper()
	answered := mcptest.BeginCall(t, url, token, `{"steps":[{"fn":"shop.slow"}]}`, stateless)
	<-s.shop.started
	return answered
}

// TestKeysTakenBackWhileItRuns: what runs for a caller ends when its key is revoked, even if there are no other requests; what
// runs for others goes on.
func TestKeysTakenBackWhileItRuns(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]func(*testServer){"by itself": func(*testServer) {}, "when it is told to": func(s *testServer) { s.RecheckCallers() }} {
		for version, stateless := range map[string]bool{"2025-11-25": false, "2026-07-28": true} {
			t.Run(name+", "+version, func(t *testing.T) {
				t.Parallel()
				s, k := serve(t, nil), newKeyring()
				url := s.serveAs(t, &Access{Callers: k})
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
		}
	}
}

// TestNobodyLooks: keys are refreshed only by requests and while something is open.
func TestNobodyLooks(t *testing.T) {
	t.Parallel()
	s, k := serve(t, nil), newKeyring()
	url := s.serveAs(t, &Access{Callers: k})
	if r, body := mcptest.Send(t, "POST", url, mcptest.Hello, mcptest.Header{"Authorization": "Bearer ann"}); r.StatusCode != 200 {
		t.Fatal(body)
	}
	time.Sleep(watchInterval + watchInterval/2)
	if _, looked, _ := k.count(); looked != 0 {
		t.Errorf("with nothing open it was looked %d times", looked)
	}
	running := slowCall(t, s, url, "ann", true)
	mcptest.Until(func() bool { _, looked, _ := k.count(); return looked > 1 })
	s.shop.enough <- struct{}{}
	<-running
}

// TestOtherKeys: new keys under which a caller keeps its rights end nothing, and are checked only once.
func TestOtherKeys(t *testing.T) {
	t.Parallel()
	s, k := serve(t, nil), newKeyring()
	url := s.serveAs(t, &Access{Callers: k})
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
}

// TestExpiredWhileItRuns: a call outlasts its token, even through a change of access, and is canceled when its key is revoked. No
// call begins with the expired token.
func TestExpiredWhileItRuns(t *testing.T) {
	t.Parallel()
	s, k := serve(t, nil), newKeyring()
	url := s.serveAs(t, &Access{Callers: k})
	headers := mcptest.Header{"Authorization": "Bearer ann", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "chain"}
	answered := make(chan string, 1)
	for life := time.Second; ; life *= 2 { // a machine may take long to begin
		k.expiring("ann", life)
		go func() {
			_, body := mcptest.Send(t, "POST", url, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"chain","arguments":{"steps":[{"fn":"shop.slow"}]}`+mcptest.StatelessMeta+"}}", headers)
			answered <- body
		}()
		select {
		case <-s.shop.started:
		case <-answered:
			continue
		}
		break
	}
	mcptest.Until(func() bool {
		r, _ := mcptest.Send(t, "POST", url, mcptest.Hello, mcptest.Header{"Authorization": "Bearer ann"})
		return r.StatusCode == 401
	})
	s.SetAccess(&Access{Callers: k})
	k.without("nobody")
	s.RecheckCallers()
	select {
	case body := <-answered:
		t.Errorf("it has ended with its token: %s", body)
	case <-time.After(50 * time.Millisecond):
	}
	k.without("ann")
	s.RecheckCallers()
	if body := soon(t, "an expired token's call, whose key is gone, ends", answered); !strings.Contains(body, "cancelled") {
		t.Error(body)
	}
}
