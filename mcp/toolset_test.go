package mcp

import (
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// TestRevokedBeforeItBegins: a call that waits for its function is not begun with rights that are gone by then.
func TestRevokedBeforeItBegins(t *testing.T) {
	t.Parallel()
	call := func(meta string) string {
		return `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"late_item_come","arguments":{}` + meta + `}}`
	}
	const now = mcptest.StatelessMeta
	less := *writer
	less.Tier = steps.TierRead
	demoted := *mcptest.Staff["ann"]
	demoted.Tier = steps.TierAdmin
	for name, test := range map[string]struct {
		first, then *transport.Access
		stateless   bool
		may         bool
	}{
		"a token is gone":               {&transport.Access{Callers: mcptest.Staff}, &transport.Access{Callers: mcptest.Callers{"bob": mcptest.Staff["bob"]}}, false, false},
		"a token is gone, no session":   {&transport.Access{Callers: mcptest.Staff}, &transport.Access{Callers: mcptest.Callers{"bob": mcptest.Staff["bob"]}}, true, false},
		"its rights are others":         {&transport.Access{Callers: mcptest.Staff}, &transport.Access{Callers: mcptest.Callers{"ann": &demoted}}, false, false},
		"it is another's":               {&transport.Access{Callers: mcptest.Staff}, &transport.Access{Callers: mcptest.Callers{"ann": mcptest.Staff["eve"]}}, true, false},
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
			s := serve(t, func(o *Options) { o.Surface, o.Processed = SurfaceFlat, true })
			late := &startingSource{shop: newShop()}
			if err := s.catalog.Add("late", late); err != nil {
				t.Fatal(err)
			}
			url := s.serveAs(t, test.first)
			headers, meta := mcptest.Header{"Authorization": "Bearer ann"}, ""
			if test.stateless {
				meta = now
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
			got, list := make(chan string, 1), make(chan string, 1)
			go func() {
				_, body := mcptest.Send(t, "POST", url, call(meta), headers)
				got <- body
			}()
			go func() {
				_, body := mcptest.Send(t, "POST", url, `{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{`+strings.TrimPrefix(meta, ",")+`}}`, listing)
				list <- body
			}()
			mcptest.Until(func() bool {
				for _, f := range s.allToolsets() {
					if f.running.Load() == 2 {
						return true
					}
				}
				return false
			})
			time.Sleep(20 * time.Millisecond) // by then it waits, or it is refused while it goes there
			s.SetAccess(test.then)
			late.come()
			if body := <-got; strings.Contains(body, `"text":"1"`) != test.may || strings.Contains(body, "nothing of this was done") == test.may {
				t.Error(body)
			}
			if body := <-list; strings.Contains(body, `"late_item_come"`) != test.may || strings.Contains(body, "nothing of this was done") == test.may {
				t.Errorf("a list: %s", body)
			}
		})
	}
}

// TestToolsetInUse: a toolset stays for as long as somebody looks at it, in whatever moment of a reload that is.
func TestToolsetInUse(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	r := steps.Rights{Tier: steps.TierRead}
	swap := func() (old *generation) {
		old = s.now.Load()
		next, err := newGeneration(&old.Options)
		if err != nil {
			t.Fatal(err)
		}
		next.number = old.number + 1
		s.now.Store(next)
		return old
	}
	f := s.toolset(r, SurfaceFlat)
	old := swap()
	if s.toolset(r, SurfaceFlat) != f { // somebody looks at it after the swap
		t.Fatal("it is gone already")
	}
	s.dropToolsets(old)
	if s.toolset(r, SurfaceFlat) != f {
		t.Error("it is gone although it was looked at")
	}
	f.running.Add(1) // a call that lasts for several reloads
	for range 3 {
		s.dropToolsets(swap())
	}
	if len(s.allToolsets()) != 1 {
		t.Error("it is gone although a call of it runs")
	}
	f.running.Add(-1)
	s.dropToolsets(swap())
	if len(s.allToolsets()) != 0 {
		t.Error("it stays although nobody looks at it")
	}
}

// TestToolsetsAtReloads: clients come all the time with the same rights, and find the same toolset after each reload.
func TestToolsetsAtReloads(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	r := steps.Rights{Tier: steps.TierRead}
	f := s.toolset(r, SurfaceFlat)
	done := make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if s.toolset(r, SurfaceFlat) != f {
					t.Error("another toolset")
					return
				}
			}
		})
	}
	for range 50 {
		o := *s.opts()
		if _, err := s.Reload(&o, nil); err != nil {
			t.Fatal(err)
		}
		s.toolset(r, SurfaceFlat)
	}
	close(done)
	all.Wait()
}
