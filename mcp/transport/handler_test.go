package transport_test

import (
	"context"
	"encoding/json"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// shop answers calls of chain and info. A call whose arguments name shop.slow waits until it is canceled.
type shop struct {
	calls   atomic.Int64
	started chan struct{} // gets a token when a slow call begins
	finish  chan struct{} // lets one slow call end by itself
}

// testServer is a transport with a handler that has two tools.
type testServer struct {
	*transport.Server
	shop      *shop
	acquire   func(ctx context.Context, caller string) (done func(), err error)
	begin     func() // called by BeginMessage; nil: nothing is called
	shutdown  func() // ends serveAs or inMemory
	stateful  *sdk.Server
	stateless *sdk.Server
}

// serve returns a server; change may alter its options.
func serve(t testing.TB, change func(*transport.Options)) *testServer {
	t.Helper()
	o := &transport.Options{Grace: 200 * time.Millisecond, MaxRequestBytes: 4 << 20}
	if change != nil {
		change(o)
	}
	if err := o.ApplyDefaults(); err != nil {
		t.Fatal(err)
	}
	s := &testServer{shop: &shop{started: make(chan struct{}, 100), finish: make(chan struct{}, 1)}}
	s.Server = transport.New(o, s.handler())
	s.stateful, s.stateless = s.tools(true), s.tools(false)
	t.Cleanup(s.Close)
	return s
}

// tools returns the SDK's server for clients with or without sessions.
func (s *testServer) tools(sessions bool) *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "shop", Version: "1"},
		&sdk.ServerOptions{Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{ListChanged: true}}})
	server.AddReceivingMiddleware(s.Receive(sessions))
	for _, name := range []string{"chain", "info"} {
		server.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, s.call)
	}
	return server
}

func (s *testServer) call(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	text := func(text string, failed bool) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}, IsError: failed}, nil
	}
	failed := func(f *fault.Error) (*sdk.CallToolResult, error) {
		return text(`{"error":{"code":"`+string(f.Code)+`","message":"`+f.Message+`"}}`, true)
	}
	ctx, end, refused := transport.RequestIn(ctx).Start(ctx)
	if refused != nil {
		return failed(refused)
	}
	defer end()
	if !strings.Contains(string(r.Params.Arguments), "shop.slow") {
		s.shop.calls.Add(1)
		return text(`{"said":"x"}`, false)
	}
	s.shop.started <- struct{}{}
	select {
	case <-ctx.Done():
		f, _ := fault.As(context.Cause(ctx))
		if f == nil {
			f = fault.New(fault.Cancelled, "the request was cancelled")
		}
		return failed(f)
	case <-s.shop.finish:
		return text(`"late"`, false)
	}
}

func (s *testServer) handler() transport.Handler { return testHandler{s} }

// testHandler is the handler of a testServer.
type testHandler struct{ s *testServer }

func (testHandler) Target(query url.Values) (any, *fault.Error) {
	if query.Get("surface") == "x" {
		return nil, fault.New(fault.BadRequest, "there is no such surface")
	}
	return nil, nil
}

func (h testHandler) Server(_ *steps.Caller, _ any, sessions bool) *sdk.Server {
	if sessions {
		return h.s.stateful
	}
	return h.s.stateless
}

func (h testHandler) Direct(_ *steps.Caller, _ any, n *transport.Session, tool string) transport.DirectCall {
	if tool != "chain" {
		return nil
	}
	answer := h.s.Receive(n != nil)(func(ctx context.Context, _ string, r sdk.Request) (sdk.Result, error) {
		return h.s.call(ctx, r.(*sdk.CallToolRequest))
	})
	return func(ctx context.Context, r *sdk.CallToolRequest) (json.RawMessage, error) {
		result, err := answer(ctx, "tools/call", r)
		if err != nil {
			return nil, err
		}
		return json.Marshal(result)
	}
}

func (testHandler) SessionOpened(*transport.Session) func() { return func() {} }

func (h testHandler) BeginMessage(ctx context.Context) (context.Context, func()) {
	if h.s.begin != nil {
		h.s.begin()
	}
	return ctx, func() {}
}

func (testHandler) AwaitSources(context.Context) {}

func (testHandler) CallID(context.Context) string { return "" }

func (h testHandler) Acquire(ctx context.Context, caller string) (func(), error) {
	if h.s.acquire == nil {
		return func() {}, nil
	}
	return h.s.acquire(ctx, caller)
}

// reader and anyone are callers without tokens.
var (
	reader = &steps.Caller{ID: "reader", Rights: steps.Rights{Tier: steps.TierRead}}
	anyone = mcptest.Caller("anyone", steps.TierReadWrite)
)

// http serves a loopback socket without tokens, and returns the URL.
func (s *testServer) http(t testing.TB, a *steps.Caller) string {
	t.Helper()
	return s.serveAs(t, &transport.Access{Anyone: *a})
}

// serveAs serves a loopback socket with the access, and returns the URL.
func (s *testServer) serveAs(t testing.TB, a *transport.Access) string {
	t.Helper()
	return mcptest.Serve(t, s.serveFunc(a)) + transport.Path
}

// inMemory serves without a socket, in a bubble with fake time.
func (s *testServer) inMemory(t testing.TB, a *transport.Access) string {
	t.Helper()
	return mcptest.ServeMemory(t, s.serveFunc(a)) + transport.Path
}

func (s *testServer) serveFunc(a *transport.Access) func(ctx context.Context, l net.Listener) error {
	open, shutdown := context.WithCancel(context.Background())
	s.shutdown = shutdown
	return func(ctx context.Context, l net.Listener) error {
		defer context.AfterFunc(ctx, shutdown)()
		return s.ServeHTTP(open, l, a)
	}
}
