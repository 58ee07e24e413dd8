package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/steps"
)

// TestNothingStaysPending: a call leaves nothing in the tables of its connection, however it ends.
func TestNothingStaysPending(t *testing.T) {
	t.Parallel()
	server := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "a", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{}, nil
		})
	remote := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	defer remote.Close()
	s, err := New(&Options{Name: "s", URL: remote.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	n, f := s.acquire(t.Context())
	if f != nil {
		t.Fatal(f)
	}
	s.release(n)
	for i := range 20 {
		ctx := steps.WithCallbacks(t.Context(), &steps.Callbacks{Progress: func(context.Context, float64, float64, string) {}})
		ctx, cancel := context.WithCancel(ctx)
		if i%2 == 0 {
			cancel()
		}
		_, _ = s.Functions()[0].Call(ctx, []byte(`{}`))
		cancel()
	}
	if n.calls != 0 || len(n.tap.pending) != 0 || len(n.tap.progress) != 0 {
		t.Errorf("%d calls, %d exchanges, %d tokens are left", n.calls, len(n.tap.pending), len(n.tap.progress))
	}
}

// TestRegisterOnce: what else is sent in the context of a call is another request than the call.
func TestRegisterOnce(t *testing.T) {
	t.Parallel()
	over, x := newTap(newSource(Options{Name: "s", Command: "x"})), &pendingRequest{stub: noContent}
	ctx := x.withContext(t.Context())
	if over.register(ctx, 5) != x || over.register(ctx, 6) != nil || x.id != 5 {
		t.Errorf("%+v", x)
	}
}
