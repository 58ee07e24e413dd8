package mcp_test

import (
	"context"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
)

// TestRevokedBeforeCall: a call whose caller's token is revoked before the call begins does nothing.
func TestRevokedBeforeCall(t *testing.T) {
	t.Parallel()
	meanwhile := func() {}
	s := serve(t, func(o *mcp.Options) {
		o.Trace = func(ctx context.Context, _, _, _ string) context.Context { meanwhile(); return ctx }
	})
	url := s.serveAs(t, &transport.Access{Callers: mcptest.Staff})
	headers := mcptest.Header{"Authorization": "Bearer ann"}
	r, _ := mcptest.Send(t, "POST", url, mcptest.Hello, headers)
	headers["Mcp-Session-Id"] = r.Header.Get("Mcp-Session-Id")
	const write = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"chain","arguments":{"steps":[{"fn":"shop.echo"}]}}}`
	if _, body := mcptest.Send(t, "POST", url, write, headers); !strings.Contains(body, `said`) || s.shop.calls.Load() != 1 {
		t.Fatalf("got %s, want said and one call", body)
	}
	meanwhile = func() { s.SetAccess(t, &transport.Access{Callers: mcptest.Callers{}}) }
	if _, body := mcptest.Send(t, "POST", url, write, headers); !strings.Contains(body, "your rights have changed") ||
		s.shop.calls.Load() != 1 {
		t.Errorf("the revoked call: %d calls, want 1: %s", s.shop.calls.Load(), body)
	}
}

// TestRevokedDuringPassThrough: a request to an upstream ends when its caller's token is revoked.
func TestRevokedDuringPassThrough(t *testing.T) {
	t.Parallel()
	b := newUpstream(t, "a", false)
	started, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	b.server.AddPrompt(&sdk.Prompt{Name: "waits"}, func(ctx context.Context, _ *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		started <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
		return nil, ctx.Err()
	})
	s := servePassThrough(t, b)
	url := s.serveAs(t, &transport.Access{Callers: mcptest.Staff})
	headers := mcptest.Header{"Authorization": "Bearer ann"}
	r, _ := mcptest.Send(t, "POST", url, mcptest.Hello, headers)
	headers["Mcp-Session-Id"] = r.Header.Get("Mcp-Session-Id")
	answered := make(chan string, 1)
	go func() {
		_, body := mcptest.Send(t, "POST", url, `{"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{"name":"waits"}}`, headers)
		answered <- body
	}()
	select {
	case <-started:
	case body := <-answered:
		t.Fatalf("answered before the call began: %s", body)
	}
	s.SetAccess(t, &transport.Access{Callers: mcptest.Callers{}})
	if body := <-answered; !strings.Contains(body, `"error"`) {
		t.Errorf("the revoked request was answered: %s, want an error", body)
	}
	<-ended
}
