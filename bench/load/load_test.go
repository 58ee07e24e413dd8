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

// served is a server of version whose tool answers well but for every tenth call.
func served(t *testing.T, version string) Target {
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
			clients := open(t, served(t, version), 3)
			if err := clients.Grow(t.Context(), 5); err != nil || clients.Len() != 5 {
				t.Fatal(clients.Len(), err)
			}
			took, failed, err := clients.Run(t.Context(), 5, 100)
			if len(took) != 90 || failed != 10 || err == nil || !strings.Contains(err.Error(), `{\"ok\":2}`) {
				t.Errorf("%d well, %d not: %v", len(took), failed, err)
			}
			list, err := clients.Request(t.Context(), "tools/list", "")
			if err != nil || !strings.Contains(string(list), `"name":"noop"`) {
				t.Errorf("%s, %v", list, err)
			}
			if err := clients.End(t.Context()); err != nil || clients.Len() != 0 {
				t.Errorf("%d clients after the end: %v", clients.Len(), err)
			}
		})
	}
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	target := served(t, WithoutSessions)
	clients := open(t, target, 2)
	there, err := url.Parse(target.URL)
	if err != nil {
		t.Fatal(err)
	}
	target.URL = strings.Replace(target.URL, there.Host, "127.0.0.1:"+porttest.Reserve(t), 1)
	if c, err := Open(t.Context(), target, 1); err == nil {
		c.Close()
		t.Error("no error without a server")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if took, _, err := clients.Run(ctx, 2, 10); len(took) > 0 || err == nil {
		t.Errorf("%d calls after the end: %v", len(took), err)
	}
	if err := clients.Grow(ctx, 3); err == nil || clients.Len() != 2 {
		t.Errorf("%d clients, %v", clients.Len(), err)
	}
}
