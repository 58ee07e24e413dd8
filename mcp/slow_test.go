package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// TestToolsetsGo: rights that nobody has any more leave nothing behind.
func TestToolsetsGo(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *Options) { o.Surface = SurfaceFlat })
	url := s.serveAs(t, &transport.Access{Callers: mcptest.Staff})
	ann := as(t, url, "ann", "2025-11-25")
	for i := range 20 {
		with := mcptest.Callers{"ann": mcptest.Staff["ann"], "new": {ID: "token:new", Rights: steps.Rights{Tier: steps.TierRead, Functions: fmt.Sprintf("shop.item.* n%d", i)}}}
		o, _ := s.another(t, nil)
		if _, err := s.Reload(o, &transport.Access{Callers: with}); err != nil {
			t.Fatal(err)
		}
		mcptest.Ask(t, as(t, url, "new", "2026-07-28"), "info", `{}`)
	}
	if n := len(s.allToolsets()); n > 4 {
		t.Errorf("%d toolsets", n)
	}
	if text, failed := mcptest.Ask(t, ann, "info", `{}`); failed {
		t.Errorf("a session that stays: %s", text)
	}
}

// TestReloadLetsLinksEnd: a call that runs in a client's own session with an upstream that is not served any more ends as it
// would have.
func TestReloadLetsLinksEnd(t *testing.T) {
	t.Parallel()
	a := newBehind(t, "a", false)
	release, began := make(chan struct{}), make(chan struct{}, 1)
	a.server.AddTool(&sdk.Tool{Name: "wait", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}, InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			began <- struct{}{}
			<-release
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "waited"}}}, nil
		})
	s := inFront(t, a)
	client := connectOver(t, s.http(t, reader), "2025-11-25", nil)
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
	o := *s.opts()
	o.Passthrough = PassUpstreams(nil)
	drained, err := s.Reload(&o, nil)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-drained:
		t.Error("drained while a call runs")
	case text := <-ended:
		t.Errorf("the call has ended: %s", text)
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	if text := <-ended; text != "waited" {
		t.Errorf("the call: %s", text)
	}
	<-drained
}
