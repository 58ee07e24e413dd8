package mcp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// newGrowingUpstream returns an upstream with different tools in each session: tools that need sampling are only for clients that have
// it, and the tool grow adds a tool in the session that calls it.
func newGrowingUpstream(t testing.TB, name string) *upstreamServer {
	t.Helper()
	b := &upstreamServer{name: name}
	add := func(s *sdk.Server, tool, text string, readOnly bool) {
		s.AddTool(&sdk.Tool{Name: tool, Description: text, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: readOnly},
			InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				if tool == "grow" {
					word := gjson.GetBytes(r.Params.Arguments, "word").String()
					s.AddTool(&sdk.Tool{Name: "grown_" + word, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: word != "written"},
						InputSchema: json.RawMessage(`{"type":"object"}`)},
						func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
							return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "I am " + word}}}, nil
						})
				}
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text + string(r.Params.Arguments)}}}, nil
			})
	}
	b.start(t, sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server {
		var s *sdk.Server
		s = sdk.NewServer(&sdk.Implementation{Name: name, Version: "1"}, &sdk.ServerOptions{
			InitializedHandler: func(_ context.Context, r *sdk.InitializedRequest) {
				if c := r.Session.InitializeParams().Capabilities; c != nil && c.Sampling != nil { //nolint:staticcheck // servers still sample
					add(s, "sampler", "needs sampling", true)
				}
			},
		})
		add(s, "grow", "grows", true)
		return s
	}, nil))
	return b
}

// listedTool is a source with one tool of an MCP server.
type listedTool struct{ raw string }

// Functions implements steps.Source.
func (l *listedTool) Functions() []steps.Function {
	return []steps.Function{{
		Spec: steps.Spec{Name: "s.show", Effect: steps.Read, Input: json.RawMessage(gjson.Get(l.raw, "inputSchema").Raw), Listing: json.RawMessage(l.raw)},
		Call: func(_ context.Context, args []byte) ([]byte, error) {
			if gjson.GetBytes(args, "fail").Bool() {
				return nil, fault.New(fault.FunctionFailed, "it fails")
			}
			return slices.Clone(args), nil
		},
	}}
}

// Close implements steps.Source.
func (l *listedTool) Close() error { return nil }
