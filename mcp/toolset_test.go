package mcp_test

import (
	"context"
	"maps"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// TestRevokedWhileWaiting: a call that waits for its function does not begin if its caller's rights are revoked meanwhile.
func TestRevokedWhileWaiting(t *testing.T) {
	t.Parallel()
	less := *writer
	less.Tier = steps.TierRead
	demoted := *mcptest.Staff["ann"]
	demoted.Tier = steps.TierAdmin
	for name, test := range map[string]struct {
		first, then *transport.Access
		stateless   bool
		may         bool
	}{
		"token revoked":                 {&transport.Access{Callers: mcptest.Staff}, &transport.Access{Callers: mcptest.Callers{"bob": mcptest.Staff["bob"]}}, false, false},
		"token revoked, no session":     {&transport.Access{Callers: mcptest.Staff}, &transport.Access{Callers: mcptest.Callers{"bob": mcptest.Staff["bob"]}}, true, false},
		"different rights":              {&transport.Access{Callers: mcptest.Staff}, &transport.Access{Callers: mcptest.Callers{"ann": &demoted}}, false, false},
		"token of another caller":       {&transport.Access{Callers: mcptest.Staff}, &transport.Access{Callers: mcptest.Callers{"ann": mcptest.Staff["eve"]}}, true, false},
		"without tokens, other rights":  {&transport.Access{Anyone: *writer}, &transport.Access{Anyone: less}, true, false},
		"without tokens, in a session":  {&transport.Access{Anyone: *writer}, &transport.Access{Anyone: less}, false, false},
		"without tokens, tokens now":    {&transport.Access{Anyone: *writer}, &transport.Access{Callers: mcptest.Staff}, true, false},
		"the same rights":               {&transport.Access{Callers: mcptest.Staff}, &transport.Access{Callers: mcptest.Callers{"ann": mcptest.Staff["ann"]}}, false, true},
		"the same rights, no session":   {&transport.Access{Callers: mcptest.Staff}, &transport.Access{Callers: mcptest.Callers{"ann": mcptest.Staff["ann"]}}, true, true},
		"without tokens, the same":      {&transport.Access{Anyone: *writer}, &transport.Access{Anyone: *writer}, true, true},
		"without tokens, its session's": {&transport.Access{Anyone: *writer}, &transport.Access{Anyone: *writer}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, func(o *mcp.Options) { o.Surface, o.Processed = mcp.SurfaceFlat, true })
				late := &startingSource{shop: newShop()}
				if err := s.catalog.Add("late", late); err != nil {
					t.Fatal(err)
				}
				url := mcptest.ServeMemory(t, func(ctx context.Context, l net.Listener) error { return s.ServeHTTP(ctx, l, test.first) }) +
					transport.Path
				headers, meta := mcptest.Header{"Authorization": "Bearer ann"}, ""
				if test.stateless {
					meta = mcptest.StatelessMeta
					headers["Mcp-Protocol-Version"], headers["Mcp-Method"], headers["Mcp-Name"] = "2026-07-28", "tools/call", "late_item_come"
				} else {
					r, _ := mcptest.Send(t, "POST", url, mcptest.Hello, headers)
					headers["Mcp-Session-Id"] = r.Header.Get("Mcp-Session-Id")
				}
				listing := maps.Clone(headers)
				delete(listing, "Mcp-Name")
				if test.stateless {
					listing["Mcp-Method"] = "tools/list"
				}
				sent := func(body string, headers mcptest.Header) <-chan string {
					got := make(chan string, 1)
					go func() {
						_, answer := mcptest.Send(t, "POST", url, body, headers)
						got <- answer
					}()
					return got
				}
				called := sent(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"late_item_come","arguments":{}`+meta+`}}`, headers)
				listed := sent(`{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{`+strings.TrimPrefix(meta, ",")+`}}`, listing)
				synctest.Wait() // both wait for the source
				if len(called)+len(listed) > 0 {
					t.Error("answered before the source is ready")
				}
				s.SetAccess(t, test.then)
				late.becomeReady()
				if body := <-called; strings.Contains(body, `"text":"1"`) != test.may ||
					strings.Contains(body, "nothing of this was done") == test.may {
					t.Errorf("a call: %s, want it permitted: %t", body, test.may)
				}
				if body := <-listed; strings.Contains(body, `"late_item_come"`) != test.may ||
					strings.Contains(body, "nothing of this was done") == test.may {
					t.Errorf("a list: %s, want it permitted: %t", body, test.may)
				}
			})
		})
	}
}
