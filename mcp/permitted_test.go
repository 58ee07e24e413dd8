package mcp

import (
	"strings"
	"testing"
	"time"
)

// TestRevokedWhileItRuns: calls that run are cancelled when their caller's token is gone, and those of others go on.
func TestRevokedWhileItRuns(t *testing.T) {
	t.Parallel()
	const slow = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"chain","arguments":{"steps":[{"fn":"shop.slow"}]}`
	const now = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}`
	for name, stateless := range map[string]bool{"in a session": false, "without one": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil)
			url := s.behind(t, &Door{Callers: staff})
			start := func(token string) <-chan string {
				headers, meta := header{"Authorization": "Bearer " + token}, ""
				if stateless {
					meta = now
					headers["Mcp-Protocol-Version"], headers["Mcp-Method"], headers["Mcp-Name"] = "2026-07-28", "tools/call", "chain"
				} else {
					r, _ := sendTo(t, "POST", url, hello, headers)
					headers["Mcp-Session-Id"] = r.Header.Get("Mcp-Session-Id")
				}
				answered := make(chan string, 1)
				go func() {
					_, body := sendTo(t, "POST", url, slow+meta+"}}", headers)
					answered <- body
				}()
				<-s.shop.started
				return answered
			}
			ann, bob := start("ann"), start("bob")
			s.SetDoor(&Door{Callers: badges{"bob": staff["bob"]}})
			if body := <-ann; !strings.Contains(body, "cancelled") {
				t.Errorf("whose token is gone: %s", body)
			}
			select {
			case body := <-bob:
				t.Errorf("another: %s", body)
			case <-time.After(50 * time.Millisecond):
			}
			s.SetDoor(&Door{Callers: badges{}})
			<-bob
		})
	}
}

// TestBeginningIsCounted: a client that begins sessions faster than it may leaves none in what replicas share, and what it may
// begin is counted once.
func TestBeginningIsCounted(t *testing.T) {
	t.Parallel()
	shared := newCommons()
	s := serve(t, func(o *Options) { o.Shared, o.Limits = shared, Limits{PerSecond: 0.001, Burst: 3} })
	url := s.behind(t, &Door{Callers: staff})
	statuses := map[int]int{}
	for range 8 {
		r, _ := sendTo(t, "POST", url, hello, header{"Authorization": "Bearer ann"})
		statuses[r.StatusCode]++
		if r.StatusCode == 429 && r.Header.Get("Retry-After") == "" {
			t.Error("it is not told when to come again")
		}
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if statuses[200] != 3 || statuses[429] != 5 || len(shared.owner) != 3 {
		t.Errorf("%v, and %d sessions", statuses, len(shared.owner))
	}
}
