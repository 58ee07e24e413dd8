package transport

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/steps"
)

// shop answers the calls of the tools chain and info: one whose arguments name shop.slow waits until it is cancelled, and any
// other says so.
type shop struct {
	calls   atomic.Int64
	started chan struct{} // gets a token when a slow call begins
	enough  chan struct{} // lets one slow call end by itself
}

// served is a transport with a handler that has two tools.
type served struct {
	*Server
	shop     *shop
	acquire  func(ctx context.Context, caller string) (done func(), err error)
	begin    func() // called by Begin; nil: nothing is
	stateful *sdk.Server
	alone    *sdk.Server
}

// serve makes a transport; change may alter its options.
func serve(t testing.TB, change func(*Options)) *served {
	t.Helper()
	o := &Options{Grace: 200 * time.Millisecond, MaxRequestBytes: 4 << 20}
	if change != nil {
		change(o)
	}
	if err := o.Settle(); err != nil {
		t.Fatal(err)
	}
	s := &served{shop: &shop{started: make(chan struct{}, 100), enough: make(chan struct{}, 1)}}
	s.Server = New(o, s.handler())
	s.stateful, s.alone = s.tools(true), s.tools(false)
	t.Cleanup(s.Close)
	return s
}

// tools makes the SDK's server for clients with sessions, or the others.
func (s *served) tools(sessions bool) *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "shop", Version: "1"}, &sdk.ServerOptions{Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{ListChanged: true}}})
	server.AddReceivingMiddleware(s.Receive(sessions))
	for _, name := range []string{"chain", "info"} {
		server.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, s.call)
	}
	return server
}

func (s *served) call(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	text := func(text string, failed bool) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}, IsError: failed}, nil
	}
	failed := func(f *fault.Error) (*sdk.CallToolResult, error) {
		return text(`{"error":{"code":"`+string(f.Code)+`","message":"`+f.Message+`"}}`, true)
	}
	ctx, end, refused := RequestIn(ctx).Start(ctx)
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
	case <-s.shop.enough:
		return text(`"late"`, false)
	}
}

func (s *served) handler() Handler { return tested{s} }

// tested is the handler of a served.
type tested struct{ s *served }

func (tested) Target(query url.Values) (any, *fault.Error) {
	if query.Get("surface") == "x" {
		return nil, fault.New(fault.BadRequest, "there is no such surface")
	}
	return nil, nil
}

func (h tested) Server(_ *steps.Caller, _ any, sessions bool) *sdk.Server {
	if sessions {
		return h.s.stateful
	}
	return h.s.alone
}

func (tested) Opened(*Session) func() { return func() {} }

func (h tested) Begin(ctx context.Context) (context.Context, func()) {
	if h.s.begin != nil {
		h.s.begin()
	}
	return ctx, func() {}
}

func (tested) CallID(context.Context) string { return "" }

func (h tested) Acquire(ctx context.Context, caller string) (func(), error) {
	if h.s.acquire == nil {
		return func() {}, nil
	}
	return h.s.acquire(ctx, caller)
}

// reader and anyone are callers that have no tokens.
var (
	reader = &steps.Caller{ID: "reader", Rights: steps.Rights{Tier: steps.TierRead}}
	anyone = mcptest.Caller("anyone", steps.TierReadWrite)
)

// stdio connects a client over stdio.
func (s *served) stdio(t testing.TB, a *steps.Caller, o *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	return mcptest.Stdio(t, o, func(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
		return s.ServeStdio(ctx, in, out, a)
	})
}

// http serves all who come over a loopback socket as one caller, and gives the URL.
func (s *served) http(t testing.TB, a *steps.Caller) string {
	t.Helper()
	return s.behind(t, &Access{Anyone: *a})
}

// behind serves those who have access, and gives the URL.
func (s *served) behind(t testing.TB, a *Access) string {
	t.Helper()
	return mcptest.Serve(t, func(ctx context.Context, l net.Listener) error { return s.ServeHTTP(ctx, l, a) }) + Path
}
