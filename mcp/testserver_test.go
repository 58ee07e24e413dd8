package mcp_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/memstore"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// shop is a source for tests: it reads, writes, waits and fails, and counts its calls.
type shop struct {
	calls   atomic.Int64
	started chan struct{} // gets a token when slow begins
	ended   chan error    // gets the reason why slow ended
	finish  chan struct{} // lets one slow call end by itself
	extra   []steps.Function
}

func newShop() *shop {
	return &shop{started: make(chan struct{}, 100), ended: make(chan error, 100), finish: make(chan struct{}, 1)}
}

func (s *shop) Functions() []steps.Function {
	text := func(name, description, input string, effect steps.Effect, tier steps.Tier,
		answer func(args gjson.Result) (string, error)) steps.Function {
		return steps.Function{
			Spec: steps.Spec{Name: name, Description: description, Input: json.RawMessage(input), Effect: effect, EffectDeclared: true, Tier: tier},
			Call: func(_ context.Context, args []byte) ([]byte, error) {
				s.calls.Add(1)
				text, err := answer(gjson.ParseBytes(args))
				return []byte(text), err
			},
		}
	}
	item := func(n int) string {
		return fmt.Sprintf(`{"id":%d,"name":"item %d","note":"%s"}`, n, n, strings.Repeat("a long note ", 10))
	}
	list := []steps.Function{
		text("shop.item.list", "Lists the items of the shop. Newest first.", `{"type":"object","properties":{"limit":{"type":"integer"}}}`,
			steps.Read, 0, func(args gjson.Result) (string, error) {
				var items []string
				for i := range int(args.Get("limit").Int()) {
					items = append(items, item(i))
				}
				return `{"items":[` + strings.Join(items, ",") + `]}`, nil
			}),
		text("shop.item.get", "Gets one item.", `{"type":"object","required":["id"],"properties":{"id":{"type":"integer"}}}`, steps.Read, 0,
			func(args gjson.Result) (string, error) {
				return item(int(args.Get("id").Int())), nil
			}),
		text("shop.item.create", "Creates items.", `{"type":"object","properties":{"count":{"type":"integer"}}}`, steps.Write, 0,
			func(args gjson.Result) (string, error) {
				var items []string
				for i := range int(args.Get("count").Int()) {
					items = append(items, item(i))
				}
				return `[` + strings.Join(items, ",") + `]`, nil
			}),
		text("shop.vault.purge", "Purges the vault of secret things.", `{"type":"object","properties":{"vaultKey":{"type":"string"}}}`,
			steps.Destroy, steps.TierAdmin, func(gjson.Result) (string, error) {
				return `"purged"`, nil
			}),
		text("shop.echo", "Says what it is told.", `{"type":"object","properties":{"text":{"type":"string"}}}`, steps.Read, 0,
			func(args gjson.Result) (string, error) {
				return `{"said":` + cmp.Or(args.Get("text").Raw, `""`) + `,"big":12345678901234567890,"exact":1.10}`, nil
			}),
		{
			Spec: steps.Spec{Name: "shop.slow", Description: "Waits until it is cancelled.", Input: json.RawMessage(`{"type":"object"}`), Effect: steps.Read},
			Call: func(ctx context.Context, _ []byte) ([]byte, error) {
				s.started <- struct{}{}
				select {
				case <-ctx.Done():
					s.ended <- ctx.Err()
					return nil, ctx.Err()
				case <-s.finish:
					return []byte(`"late"`), nil
				}
			},
		},
	}
	return append(list, s.extra...)
}

func (s *shop) Close() error { return nil }

// testServer is a server with a shop behind it.
type testServer struct {
	*mcp.Server
	options *mcp.Options
	shop    *shop
	catalog *steps.Catalog
}

// storeOf returns a counter and a store of results in memory. The caller closes the store after its server.
func storeOf(t testing.TB) (budget.Counter, *budget.Results) {
	t.Helper()
	counter, err := budget.NewCounter("", 0)
	if err != nil {
		t.Fatal(err)
	}
	store, err := memstore.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	results, err := budget.NewResults(store, &budget.ResultsOptions{Counter: counter})
	if err != nil {
		t.Fatal(err)
	}
	return counter, results
}

// serve returns a server with a shop; change may alter its options.
func serve(t testing.TB, change func(*mcp.Options)) *testServer {
	t.Helper()
	catalog, err := steps.NewCatalog(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &testServer{shop: newShop(), catalog: catalog}
	if err := catalog.Add("shop", s.shop); err != nil {
		t.Fatal(err)
	}
	counter, results := storeOf(t)
	o := &mcp.Options{Catalog: catalog, Counter: counter, MaxTotalTokens: 10_000, Version: "1.2.3",
		Options: transport.Options{Grace: 200 * time.Millisecond}}
	if change != nil {
		change(o)
	}
	unwrapProxy(o)
	if o.Engine == nil {
		o.Engine, err = chain.New(&chain.Options{Functions: catalog, Counter: counter, Results: results, MaxTotalTokens: o.MaxTotalTokens,
			Lite: o.Lite})
		if err != nil {
			t.Fatal(err)
		}
	}
	s.options = o
	if s.Server, err = mcp.New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Server.Close()
		catalog.Close()
		results.Close()
	})
	return s
}

// reader is a caller that may read; writer one that may write too.
var (
	reader = mcptest.Caller("reader", steps.TierRead)
	writer = mcptest.Caller("writer", steps.TierReadWrite)
)

// stdio connects a client over stdio.
func (s *testServer) stdio(t testing.TB, a *steps.Caller, o *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	return mcptest.Stdio(t, o, func(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
		return s.ServeStdio(ctx, in, out, a)
	})
}

// http serves all clients of a loopback socket as one caller, and returns the URL.
func (s *testServer) http(t testing.TB, a *steps.Caller) string {
	t.Helper()
	return s.serveAs(t, &transport.Access{Anyone: *a})
}

// serveAs serves a loopback socket with this access, and returns the URL.
func (s *testServer) serveAs(t testing.TB, a *transport.Access) string {
	t.Helper()
	return mcptest.Serve(t, func(ctx context.Context, l net.Listener) error { return s.ServeHTTP(ctx, l, a) }) + transport.Path
}

// SetAccess replaces the access over HTTP, as a reload does.
func (s *testServer) SetAccess(t testing.TB, a *transport.Access) {
	t.Helper()
	if _, err := s.Reload(s.options, a); err != nil {
		t.Fatal(err)
	}
}

// names returns the names of the tools that a client sees.
func names(t testing.TB, session *sdk.ClientSession) string {
	t.Helper()
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, tool := range list.Tools {
		all = append(all, tool.Name)
	}
	return strings.Join(all, " ")
}
