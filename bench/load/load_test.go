package load

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/internal/porttest"
)

// serve serves a tool that answers every tenth call wrongly.
func serve(t *testing.T, version string) Target {
	server := sdk.NewServer(&sdk.Implementation{Name: "load", Version: "1"}, nil)
	var calls atomic.Int64
	noop := &sdk.Tool{Name: "noop", InputSchema: json.RawMessage(`{"type":"object"}`)}
	server.AddTool(noop, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		text := `{"ok":1}`
		if calls.Add(1)%10 == 0 {
			text = `{"ok":2}`
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil
	})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: version >= WithoutSessions}))
	t.Cleanup(web.Close)
	return Target{URL: web.URL, Version: version, Tool: "noop", Args: `{}`, Want: `{"ok":1}`}
}

func open(t *testing.T, target Target, n int) *Clients {
	t.Helper()
	clients, err := Open(t.Context(), target, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(clients.Close)
	return clients
}

// TestRun counts the answers that are not what was asked for, and times the others.
func TestRun(t *testing.T) {
	t.Parallel()
	for _, version := range []string{WithSessions, WithoutSessions} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			clients := open(t, serve(t, version), 3)
			if err := clients.Grow(t.Context(), 5); err != nil || clients.Len() != 5 {
				t.Fatalf("Grow: got %d clients, %v, want 5", clients.Len(), err)
			}
			took, failed, err := clients.Run(t.Context(), 5, 100)
			if len(took) != 90 || failed != 10 || err == nil || !strings.Contains(err.Error(), `{\"ok\":2}`) {
				t.Errorf("%d calls succeeded, %d failed, want 90 and 10: %v", len(took), failed, err)
			}
			list, err := clients.Request(t.Context(), "tools/list", "")
			if err != nil || !strings.Contains(string(list), `"name":"noop"`) {
				t.Errorf("tools/list: got %s, %v, want noop in it", list, err)
			}
			if err := clients.End(t.Context()); err != nil || clients.Len() != 0 {
				t.Errorf("%d clients after End, want 0: %v", clients.Len(), err)
			}
		})
	}
}

func TestUnreachableServer(t *testing.T) {
	t.Parallel()
	target := serve(t, WithoutSessions)
	clients := open(t, target, 2)
	original, err := url.Parse(target.URL)
	if err != nil {
		t.Fatal(err)
	}
	target.URL = strings.Replace(target.URL, original.Host, "127.0.0.1:"+porttest.Reserve(t), 1)
	if c, err := Open(t.Context(), target, 1); err == nil {
		c.Close()
		t.Error("Open without a server returned no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if took, _, err := clients.Run(ctx, 2, 10); len(took) > 0 || err == nil {
		t.Errorf("%d calls succeeded with an ended context, want 0 and an error: %v", len(took), err)
	}
	if err := clients.Grow(ctx, 3); err == nil || clients.Len() != 2 {
		t.Errorf("Grow with an ended context: %d clients, want 2; %v", clients.Len(), err)
	}
}
