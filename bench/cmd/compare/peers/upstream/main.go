// Upstream is the MCP server that all arms of the comparison call: Streamable HTTP on a free port of loopback, which it prints.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	sessions := flag.Bool("sessions", false, "give each client a session, which protocols from 2026-07-28 on do not have")
	flag.Parse()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	one := server()
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return one }, &sdk.StreamableHTTPOptions{Stateless: !*sessions})
	fmt.Printf("listening on http://%s/mcp\n", listener.Addr())
	fmt.Fprintln(os.Stderr, http.Serve(listener, handler))
	os.Exit(1)
}

// server returns a server with three tools that read: noop, next, which returns the number after its argument, and slow, which does the
// same after 20 ms.
func server() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "bench", Version: "1"}, nil)
	const number = `{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`
	add := func(name, description string, wait time.Duration, step int) {
		tool := &sdk.Tool{
			Name: name, Description: description, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true},
			InputSchema: json.RawMessage(number), OutputSchema: json.RawMessage(number),
		}
		s.AddTool(tool, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			var args struct{ N int }
			if err := json.Unmarshal(r.Params.Arguments, &args); err != nil {
				return nil, err
			}
			time.Sleep(wait)
			text := fmt.Sprintf(`{"n":%d}`, args.N+step)
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}, StructuredContent: json.RawMessage(text)}, nil
		})
	}
	add("noop", "Return n as it is.", 0, 0)
	add("next", "Return the number after n.", 0, 1)
	add("slow", "Return the number after n, 20 ms later.", 20*time.Millisecond, 1)
	return s
}
