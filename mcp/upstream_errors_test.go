package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
)

// upstreamCodes are codes of errors that upstreams answer with: those of JSON-RPC and MCP, and their own.
var upstreamCodes = []int64{-32601, -32602, -32603, -32600, -32002, -32000, -32700, -32042, -32022, -32021, -1, 42, 0}

// newFailingUpstream returns an upstream whose tools fail_0, fail_1, … and resources answer with the errors of upstreamCodes.
func newFailingUpstream(t testing.TB, stateless bool) *upstreamServer {
	t.Helper()
	b := &upstreamServer{name: "f", server: sdk.NewServer(&sdk.Implementation{Name: "f", Version: "1"}, nil)}
	for i := range upstreamCodes {
		b.server.AddTool(&sdk.Tool{Name: fmt.Sprint("fail_", i), InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
	}
	b.server.AddResource(&sdk.Resource{Name: "r", URI: "f://0"}, nil)
	b.server.AddPrompt(&sdk.Prompt{Name: "fail_0"}, nil)
	served := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return b.server },
		&sdk.StreamableHTTPOptions{Stateless: stateless})
	b.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		message := gjson.ParseBytes(body)
		switch message.Get("method").Str {
		case "tools/call", "prompts/get", "resources/read": // the SDK's server would change some of the errors
			n := strings.TrimLeft(message.Get("params.name").Str, "fail_")
			code := upstreamCodes[gjson.Parse("0"+n).Int()]
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":%s}`, message.Get("id").Raw, upstreamError(code))
		default:
			r.Body = io.NopCloser(bytes.NewReader(body))
			served.ServeHTTP(w, r)
		}
	}))
	return b
}

func upstreamError(code int64) string {
	return fmt.Sprintf(`{"code":%d,"message":"own words %s","data":{"hint":1.50}}`, code, strings.Repeat("é", 3000))
}

// TestErrorsOfUpstreams: an upstream's own error reaches the client word for word, whatever its code, with the HTTP status of an answer
// or, for the codes for which MCP 2026-07-28 asks for it, with 400.
func TestErrorsOfUpstreams(t *testing.T) {
	t.Parallel()
	for _, stateless := range []bool{false, true} {
		s := servePassThrough(t, newFailingUpstream(t, stateless))
		url := s.http(t, writer)
		for _, version := range []string{statefulVersion, statelessVersion} {
			for _, surface := range []mcp.Surface{mcp.SurfaceFlat, mcp.SurfaceHybrid} {
				c, _ := newRawClient(t, url, surface.String(), version)
				check := func(method, params string, code int64) {
					t.Helper()
					answer, status := c.message(t, method, params), "200 "
					if version == statelessVersion && slices.Contains([]int64{-32602, -32022, -32021}, code) {
						status = "400 "
					}
					if !strings.HasPrefix(answer, status) || !strings.Contains(answer, `"error":`+upstreamError(code)+"}") {
						t.Errorf("%s %s %s of code %d: got %s, want %sand the upstream's words", version, surface, method, code, answer, status)
					}
				}
				for i, code := range upstreamCodes {
					check("tools/call", fmt.Sprintf(`{"name":"fail_%d","arguments":{}}`, i), code)
				}
				check("prompts/get", `{"name":"fail_0"}`, upstreamCodes[0])
				check("resources/read", `{"uri":"f://0"}`, upstreamCodes[0])
			}
		}
		for _, version := range []string{statefulVersion, statelessVersion} {
			c := mcptest.StdioOf(t, nil, version, func(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
				return s.ServeStdio(ctx, in, out, writer)
			})
			for i, code := range upstreamCodes {
				_, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: fmt.Sprint("fail_", i), Arguments: json.RawMessage("{}")})
				var rpcErr *jsonrpc.Error
				if !errors.As(err, &rpcErr) {
					t.Errorf("stdio %s, code %d: got %v, want the upstream's error", version, code, err)
				} else if text, err := json.Marshal(rpcErr); err != nil || string(text) != upstreamError(code) {
					t.Errorf("stdio %s, code %d: got %s, want the upstream's words", version, code, text)
				}
			}
		}
	}
}
