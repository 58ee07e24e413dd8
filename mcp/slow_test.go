package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/proxy"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// TestUnusedToolsetsAreDropped: rights that no caller has any more leave nothing behind, not even a session with an upstream.
func TestUnusedToolsetsAreDropped(t *testing.T) {
	t.Parallel()
	a := newUpstream(t, "a", false)
	s := servePassThrough(t, a)
	url := s.serveAs(t, &transport.Access{Callers: mcptest.Staff})
	connectAs(t, url, "ann", statelessVersion) // returns once the server accepts connections
	for i := range 20 {
		s.SetAccess(t, &transport.Access{Callers: mcptest.Callers{"new": {ID: "token:new",
			Rights: steps.Rights{Tier: steps.TierRead, Functions: fmt.Sprintf("a.* n%d", i)}}}})
		client := connectAs(t, url, "new", statelessVersion)
		if text, failed := mcptest.Ask(t, client, "a_session", `{}`); failed {
			t.Fatalf("a_session: %s, want success", text)
		}
		client.Close()
	}
	polltest.Until(t, "sessions of clients that left end", func() bool { return len(slices.Collect(a.server.Sessions())) <= 4 })
}

// TestReloadLetsUpstreamSessionsEnd: a running call in a client's own session with an upstream ends normally if a reload removes the
// upstream.
func TestReloadLetsUpstreamSessionsEnd(t *testing.T) {
	t.Parallel()
	a := newUpstream(t, "a", false)
	release, began := make(chan struct{}), make(chan struct{}, 1)
	a.server.AddTool(&sdk.Tool{Name: "wait", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true},
		InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			began <- struct{}{}
			<-release
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "waited"}}}, nil
		})
	s := servePassThrough(t, a)
	client := connectHTTP(t, s.http(t, reader), "2025-11-25", nil)
	ended := make(chan string, 1)
	name := ""
	for _, tool := range strings.Fields(names(t, client)) {
		if strings.HasSuffix(tool, "wait") {
			name = tool
		}
	}
	go func() {
		result, err := client.CallTool(context.Background(), &sdk.CallToolParams{Name: name, Arguments: json.RawMessage(`{}`)})
		if err != nil {
			ended <- err.Error()
			return
		}
		ended <- result.Content[0].(*sdk.TextContent).Text
	}()
	<-began
	o := *s.options
	o.Passthrough = proxy.New(nil)
	drained, err := s.Reload(&o, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 { // gives the work that the reload began time to run
		names(t, client)
	}
	select {
	case <-drained:
		t.Error("drained while a call runs")
	case text := <-ended:
		t.Errorf("the call ended at the reload: %s", text)
	default:
	}
	close(release)
	if text := <-ended; text != "waited" {
		t.Errorf("the call returned %s, want waited", text)
	}
	<-drained
}
