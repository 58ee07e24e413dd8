//go:build e2e && unix

package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/internal/polltest"
)

// TestFlatByCapabilities checks the flat surface of server-everything, whose tools depend on its client's capabilities. Each client must
// see the tools of its own session with the server, and must be able to call them.
//
//nolint:staticcheck // servers still sample
func TestFlatByCapabilities(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "onecall.json")
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]server{"everything": npmServers(npmPackages(t),
		"")["everything"]}, "access": map[string]string{"http": "read_write"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s := serveHTTP(t, config, "--surface", "flat")
	tools := func(o *sdk.ClientOptions) (*sdk.ClientSession, []string) {
		c, err := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, o).Connect(t.Context(),
			&sdk.StreamableClientTransport{Endpoint: s.url}, &sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		var names []string
		polltest.Until(t, "the tools of the client's own session, in which no client supports elicitation", func() bool {
			list, err := c.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			names = nil
			for _, tool := range list.Tools {
				names = append(names, tool.Name)
			}
			return slices.Contains(names, "echo") && !slices.Contains(names, "trigger-elicitation-request")
		}, s.stderr)
		return c, names
	}
	const needsSampling, needsElicitation = "trigger-sampling-request", "trigger-elicitation-request"
	bare, bareTools := tools(&sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}})
	if slices.Contains(bareTools, needsSampling) || slices.Contains(bareTools, needsElicitation) || !slices.Contains(bareTools, "echo") {
		t.Errorf("a client without capabilities sees %v, want echo, and no tool that needs them", bareTools)
	}
	if _, err := bare.CallTool(t.Context(), &sdk.CallToolParams{Name: needsSampling}); err == nil ||
		!strings.Contains(err.Error(), "unknown tool") {
		t.Errorf("call of a tool that it does not see: %v, want unknown tool", err)
	}
	sampling, samplingTools := tools(&sdk.ClientOptions{CreateMessageHandler: func(context.Context,
		*sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
		return &sdk.CreateMessageResult{Role: "assistant", Model: "m", Content: &sdk.TextContent{Text: "sampled it"}}, nil
	}})
	if !slices.Contains(samplingTools, needsSampling) || slices.Contains(samplingTools, needsElicitation) {
		t.Errorf("a client that supports sampling sees %v, want %s, and not %s", samplingTools, needsSampling, needsElicitation)
	}
	answer, err := sampling.CallTool(t.Context(), &sdk.CallToolParams{Name: needsSampling,
		Arguments: map[string]any{"prompt": "say it", "maxTokens": 10}})
	if err != nil || answer.IsError || !strings.Contains(answer.Content[0].(*sdk.TextContent).Text, "sampled it") {
		t.Errorf(`sampling: got %+v, %v, want "sampled it"`, answer, err)
	}
}
