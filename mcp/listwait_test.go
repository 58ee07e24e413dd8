package mcp_test

import (
	"context"
	"encoding/json"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// addStarting adds a source that starts after a span of time; 0: never.
func addStarting(t *testing.T, s *testServer, after time.Duration) {
	t.Helper()
	late := &startingSource{shop: newShop()}
	if err := s.catalog.Add("late", late); err != nil {
		t.Fatal(err)
	}
	if after > 0 {
		timer := time.AfterFunc(after, late.becomeReady)
		t.Cleanup(func() { timer.Stop() })
	}
}

// waits checks how long list waits, in fake time.
func waits(t *testing.T, what string, want time.Duration, list func()) {
	t.Helper()
	began := time.Now()
	list()
	if got := time.Since(began); got != want {
		t.Errorf("%s waited %v, want %v", what, got, want)
	}
}

// TestListWaitsOverStdio: a list that shows functions waits for starting sources, for at most five seconds after the client's transport
// began, however many lists it asks for. The list of the surface chain does not wait.
func TestListWaitsOverStdio(t *testing.T) {
	t.Parallel()
	const never = 0
	for name, test := range map[string]struct {
		surface      mcp.Surface
		starts, asks time.Duration // since the transport began
		waits        time.Duration
		listed       bool
	}{
		"dispatch, starts in time":          {mcp.SurfaceDispatch, 3 * time.Second, 0, 3 * time.Second, true},
		"flat, starts in time":              {mcp.SurfaceFlat, 3 * time.Second, 0, 3 * time.Second, true},
		"hybrid, starts in time":            {mcp.SurfaceHybrid, 3 * time.Second, 0, 3 * time.Second, true},
		"flat, asks later, starts in time":  {mcp.SurfaceFlat, 4 * time.Second, 3 * time.Second, time.Second, true},
		"flat, never starts":                {mcp.SurfaceFlat, never, 0, 5 * time.Second, false},
		"flat, never starts, asks later":    {mcp.SurfaceFlat, never, 3 * time.Second, 2 * time.Second, false},
		"flat, never starts, asks too late": {mcp.SurfaceFlat, never, time.Minute, 0, false},
		"chain, starts in time":             {mcp.SurfaceChain, 3 * time.Second, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, func(o *mcp.Options) { o.Surface = test.surface })
				addStarting(t, s, test.starts)
				client := s.stdio(t, writer, nil)
				time.Sleep(test.asks)
				waits(t, "the list", test.waits, func() {
					if got := names(t, client); strings.Contains(got, "late_item_come") != test.listed {
						t.Errorf("the list is %s, want late_item_come in it: %t", got, test.listed)
					}
				})
				waits(t, "the next list", 0, func() { names(t, client) })
			})
		})
	}
}

// TestChainListDoesNotWaitForSavedChains: the surface chain shows saved chains that are tools. Its list does not wait for them either, nor
// does that of prompts.
func TestChainListDoesNotWaitForSavedChains(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, nil)
		if err := s.catalog.Add(steps.ChainSource, newShop()); err != nil {
			t.Fatal(err)
		}
		addStarting(t, s, 0)
		client := s.stdio(t, writer, nil)
		waits(t, "the list", 0, func() { names(t, client) })
		waits(t, "the list of prompts", 0, func() {
			if _, err := client.ListPrompts(t.Context(), nil); err != nil {
				t.Error(err)
			}
		})
	})
}

// TestListWaitsOverHTTP: over HTTP, the five seconds begin with the first list of each caller, in whatever session, and with none.
func TestListWaitsOverHTTP(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(o *mcp.Options) { o.Surface = mcp.SurfaceFlat })
		addStarting(t, s, 0)
		url := mcptest.ServeMemory(t, func(ctx context.Context, l net.Listener) error {
			return s.ServeHTTP(ctx, l, &transport.Access{Callers: mcptest.Staff})
		}) + transport.Path
		list := func(caller string, surface string) {
			t.Helper()
			_, body := mcptest.Send(t, "POST", url+surface, `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{`+
				strings.TrimPrefix(mcptest.StatelessMeta, ",")+`}}`, mcptest.Header{"Authorization": "Bearer " + caller,
				"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"})
			if !strings.Contains(body, `"shop_`) && surface == "" {
				t.Errorf("%s lists %s, want the functions of the shop", caller, body)
			}
		}
		time.Sleep(time.Minute)
		waits(t, "a list of the surface chain", 0, func() { list("ann", "?surface=chain") })
		waits(t, "ann's first list", 5*time.Second, func() { list("ann", "") })
		waits(t, "ann's second list", 0, func() { list("ann", "") })
		waits(t, "ann's list of another surface", 0, func() { list("ann", "?surface=hybrid") })
		waits(t, "the first list of eve, who has the same rights", 5*time.Second, func() { list("eve", "") })
		waits(t, "the list of bob, who may not use the source", 0, func() { list("bob", "") })
	})
}

// hangingUpstreams passes servers through that do not list their tools in a client's own session.
type hangingUpstreams struct {
	mcp.UpstreamSessions
	client mcp.Client
}

func (hangingUpstreams) Open(c mcp.Client) mcp.UpstreamSessions { return hangingUpstreams{client: c} }
func (hangingUpstreams) Close()                                 {}
func (hangingUpstreams) Await(ctx context.Context)              { <-ctx.Done() }
func (h hangingUpstreams) CurrentTools() *mcp.Tools             { return h.client.Tools() }
func (hangingUpstreams) Functions() (own map[string][]steps.Function, change uint64) {
	return nil, 0
}
func (hangingUpstreams) Within(ctx context.Context, _ json.RawMessage) context.Context { return ctx }
func (hangingUpstreams) Answer(ctx context.Context, method string, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error) {
	return next(ctx, method, req)
}
func (hangingUpstreams) Send(ctx context.Context, method string, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error) {
	return next(ctx, method, req)
}

// TestListWaitsForOwnSessions: a client's first list opens its own sessions with servers. It waits for them and for starting sources for
// five seconds in all, and later lists do not wait again.
func TestListWaitsForOwnSessions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(o *mcp.Options) { o.Surface, o.Passthrough = mcp.SurfaceFlat, hangingUpstreams{} })
		addStarting(t, s, 3*time.Second)
		client := s.stdio(t, writer, nil)
		time.Sleep(2 * time.Second)
		waits(t, "the first list", 5*time.Second, func() { names(t, client) })
		waits(t, "the second list", 0, func() { names(t, client) })
		waits(t, "a call of an unknown tool", 5*time.Second, func() {
			if _, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: "shop_none"}); err == nil {
				t.Error("the call succeeded, want it refused")
			}
		})
	})
}
