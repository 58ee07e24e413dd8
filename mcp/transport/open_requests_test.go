package transport_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
)

// TestRevokedDuringCall: running calls are canceled when their caller's token is revoked, and others continue.
func TestRevokedDuringCall(t *testing.T) {
	t.Parallel()
	for name, stateless := range map[string]bool{"in a session": false, "without one": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, nil)
				url := s.inMemory(t, &transport.Access{Callers: mcptest.Staff})
				ann, bob := slowCall(t, s, url, "ann", stateless), slowCall(t, s, url, "bob", stateless)
				s.SetAccess(&transport.Access{Callers: mcptest.Callers{"bob": mcptest.Staff["bob"]}})
				if body := <-ann; !strings.Contains(body, "cancelled") {
					t.Errorf("the call of the revoked caller was not canceled: %s", body)
				}
				select {
				case body := <-bob:
					t.Errorf("the call of another caller ended: %s", body)
				case <-time.After(50 * time.Millisecond):
				}
				s.SetAccess(&transport.Access{Callers: mcptest.Callers{}})
				<-bob
			})
		})
	}
}

// TestRevokedBeforeHandling: a change of rights just before a message is handled refuses it, and one just after ends it.
func TestRevokedBeforeHandling(t *testing.T) {
	t.Parallel()
	for name, stateless := range map[string]bool{"in a session": false, "without one": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, nil)
				url := s.inMemory(t, &transport.Access{Callers: mcptest.Staff})
				begun := 0
				s.begin = func() {
					if begun++; begun > 1 || stateless {
						s.SetAccess(&transport.Access{Callers: mcptest.Callers{"bob": mcptest.Staff["bob"]}})
					}
				}
				body := <-mcptest.BeginCall(t, url, "ann", `{"steps":[{"fn":"shop.echo"}]}`, stateless)
				if !strings.Contains(body, "nothing of this was done") || s.shop.calls.Load() != 0 {
					t.Errorf("%d calls, want none: %s", s.shop.calls.Load(), body)
				}
			})
		})
	}
}
