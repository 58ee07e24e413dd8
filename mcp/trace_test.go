package mcp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
)

// TestTrace: a call is part of its client's trace, which its message names, or else the HTTP header.
func TestTrace(t *testing.T) {
	t.Parallel()
	traces := make(chan [3]string, 1)
	s := serve(t, func(o *mcp.Options) {
		o.Trace = func(ctx context.Context, tool, traceparent, tracestate string) context.Context {
			traces <- [3]string{tool, traceparent, tracestate}
			return ctx
		}
	})
	client := mcptest.Connect(t, &sdk.StreamableClientTransport{Endpoint: s.http(t, reader),
		HTTPClient: &http.Client{Transport: mcptest.Header{"traceparent": "00-aa-01-00"}}}, nil, "2025-11-25")
	call := func(meta sdk.Meta) {
		t.Helper()
		if _, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: "info", Arguments: json.RawMessage("{}"), Meta: meta}); err != nil {
			t.Fatal(err)
		}
	}
	call(nil)
	if got := <-traces; got != [3]string{"info", "00-aa-01-00", ""} {
		t.Errorf("by the header: %q, want info and 00-aa-01-00", got)
	}
	call(sdk.Meta{"traceparent": "00-bb-02-01", "tracestate": "a=b"})
	if got := <-traces; got != [3]string{"info", "00-bb-02-01", "a=b"} {
		t.Errorf("by the message: %q, want info, 00-bb-02-01 and a=b", got)
	}
	overStdio := s.stdio(t, reader, nil)
	mcptest.Ask(t, overStdio, "info", `{}`)
	if got := <-traces; got != [3]string{"info", "", ""} {
		t.Errorf("over stdio: %q, want info and no trace", got)
	}
}
