package mcp_test

import (
	"context"
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/steps"
)

// another returns options like the server's, with a catalog of their own that has another shop.
func (s *testServer) another(t *testing.T, change func(*mcp.Options)) (*mcp.Options, *shop) {
	t.Helper()
	catalog, err := steps.NewCatalog(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { catalog.Close() })
	shop := newShop()
	shop.extra = []steps.Function{{
		Spec: steps.Spec{Name: "shop.fresh", Description: "Is new.", Input: json.RawMessage(`{"type":"object"}`), Effect: steps.Read, EffectDeclared: true},
		Call: func(context.Context, []byte) ([]byte, error) { return []byte(`"fresh"`), nil },
	}}
	if err := catalog.Add("shop", shop); err != nil {
		t.Fatal(err)
	}
	o := *s.options
	o.Catalog = catalog
	if change != nil {
		change(&o)
	}
	o.Engine, err = chain.New(&chain.Options{Functions: catalog, Counter: o.Counter, MaxTotalTokens: o.MaxTotalTokens})
	if err != nil {
		t.Fatal(err)
	}
	return &o, shop
}

// TestReload: clients keep their sessions, use the new configuration and are notified of it. A running call ends with the configuration
// that it began with.
func TestReload(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *mcp.Options) { o.Surface, o.SessionTokens = mcp.SurfaceFlat, 100_000 })
	changed := make(chan struct{}, 10)
	client := connectHTTP(t, s.http(t, reader), "2025-11-25", &sdk.ClientOptions{
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { changed <- struct{}{} },
	})
	if strings.Contains(names(t, client), "fresh") {
		t.Fatal("the new function is listed before the reload")
	}
	running := make(chan string, 1)
	go func() {
		result, err := client.CallTool(context.Background(), &sdk.CallToolParams{Name: "chain",
			Arguments: json.RawMessage(`{"steps":[{"fn":"shop.slow","timeoutMs":300000},{"fn":"shop.echo","args":{"text":"old"}}]}`)})
		if err != nil {
			running <- err.Error()
			return
		}
		running <- result.Content[0].(*sdk.TextContent).Text
	}()
	<-s.shop.started
	o, shop := s.another(t, func(o *mcp.Options) { o.MaxTotalTokens = 5000 })
	drained, err := s.Reload(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-drained:
		t.Error("drained while a call runs")
	default:
	}
	s.shop.finish <- struct{}{}
	<-changed
	if text, failed := mcptest.Ask(t, client, "shop_fresh", `{}`); failed || text != "fresh" {
		t.Errorf("the new function: %s, want fresh", text)
	}
	text, failed := mcptest.Ask(t, client, "chain", `{"steps":[{"fn":"shop.echo","args":{"text":"new"}}]}`)
	if failed || gjson.Get(text, "usage.limit").Int() != 5000 || shop.calls.Load() != 1 {
		t.Errorf("a chain: %s, want limit 5000 and one call", text)
	}
	if text := <-running; gjson.Get(text, "result.said").Str != "old" || gjson.Get(text, "usage.limit").Int() != 10_000 {
		t.Errorf("the call that was running: %s, want old with limit 10000", text)
	}
	select {
	case <-drained:
	case <-time.After(2 * time.Minute):
		t.Error("the old configuration was not drained")
	}
	if info, _ := mcptest.Ask(t, client, "info", `{}`); gjson.Get(info, "session.tokens").Int() < 100 {
		t.Errorf("info: %s, want the session's tokens as before the reload", info)
	}
	if s.shop.calls.Load() != 1 {
		t.Errorf("%d calls of the old shop, want 1", s.shop.calls.Load())
	}
}

func TestReloadRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	client := s.stdio(t, reader, nil)
	before := names(t, client)
	for _, o := range []*mcp.Options{nil, {}, {Engine: s.options.Engine, Catalog: s.options.Catalog, Counter: s.options.Counter,
		SessionTokens: -1}} {
		if _, err := s.Reload(o, nil); fault.CodeOf(err) != fault.BadRequest {
			t.Errorf("reload with %+v: %v, want bad_request", o, err)
		}
	}
	if text, failed := mcptest.Ask(t, client, "chain", `{"steps":[{"fn":"shop.echo"}]}`); failed || names(t, client) != before {
		t.Errorf("after the refused reload: %s, want success, and the tools as before", text)
	}
}

// TestManyReloads: no call fails during reloads.
func TestManyReloads(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	url := s.http(t, reader)
	stop := make(chan struct{})
	called, ended := make(chan struct{}, 4), make(chan struct{}, 4)
	for range cap(ended) {
		client := connectHTTP(t, url, "", nil)
		go func() {
			defer func() { ended <- struct{}{} }()
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if n == 1 {
					called <- struct{}{}
				}
				if text, failed := mcptest.Ask(t, client, "chain", `{"lite":true,"steps":[{"fn":"shop.echo","args":{"text":"x"}}]}`); failed {
					t.Errorf("a call during reloads: %s, want success", text)
				}
			}
		}()
	}
	for range cap(called) {
		<-called
	}
	for range 20 {
		o, _ := s.another(t, nil)
		drained, err := s.Reload(o, nil)
		if err != nil {
			t.Fatal(err)
		}
		<-drained
	}
	close(stop)
	for range cap(ended) {
		<-ended
	}
}

// TestReloadReleasesConfiguration: nothing retains a former configuration, even if clients stay connected.
func TestReloadReleasesConfiguration(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	clients := []*sdk.ClientSession{s.stdio(t, writer, nil), mcptest.Connect(t, &sdk.StreamableClientTransport{Endpoint: s.http(t, reader)},
		nil, "2025-11-25")}
	o, _ := s.another(t, nil)
	old := weak.Make(s.options.Engine)
	s.options = nil
	drained, err := s.Reload(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	<-drained
	polltest.Until(t, "the old engine is collected", func() bool {
		runtime.GC()
		return old.Value() == nil
	})
	for _, client := range clients {
		if text, failed := mcptest.Ask(t, client, "chain", `{"lite":true,"steps":[{"fn":"shop.fresh"}]}`); failed || text != `"fresh"` {
			t.Errorf("after the reload: %s, want \"fresh\"", text)
		}
	}
}
