package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/metrics"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
)

// servers serve until ctx ends. They write Addresses as soon as they can be called, and answer each line of in with Stats.
var servers = map[string]func(ctx context.Context, in io.Reader, out io.Writer){
	"onecall": serve, "bare": bareNoop, "upstream": upstream,
}

// Addresses are the URLs of a server.
type Addresses struct {
	Sessions  string `json:"sessions"`  // for versions of MCP with sessions
	Stateless string `json:"stateless"` // for versions without sessions
}

// Stats says what a server uses.
type Stats struct {
	Heap       int64 `json:"heap"` // bytes that were live at the end of the last collection
	Goroutines int   `json:"goroutines"`
	Files      int   `json:"files"`
	Resident   int64 `json:"resident"` // the resident memory in bytes
}

// serve serves onecall over HTTP with bench.noop, bench.slow and bench.large, whose result is kept only for seconds.
func serve(ctx context.Context, in io.Reader, out io.Writer) {
	engine, catalog := newEngine(2*time.Second, noop(), slow(), largeFunction(largeResult(100_000)))
	url, ended := listen(ctx, engine, catalog)
	announce(in, out, Addresses{Sessions: url, Stateless: url}, ended)
}

// bareNoop serves the SDK's server, whose tool noop does nothing.
func bareNoop(ctx context.Context, in io.Reader, out io.Writer) {
	server := newServer("bare")
	noop := &sdk.Tool{Name: "noop", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}, InputSchema: json.RawMessage(`{"type":"object"}`)}
	server.AddTool(noop, answering(noopResult))
	serveSDK(ctx, in, out, server)
}

// upstream serves the SDK's server with three tools that read: noop, next, which returns the number after its argument, and slow, which
// does the same after 20 ms.
func upstream(ctx context.Context, in io.Reader, out io.Writer) {
	server := newServer("bench")
	const number = `{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`
	for _, t := range []struct {
		name, description string
		wait              time.Duration
		step              int
	}{
		{"noop", "Return n as it is.", 0, 0}, {"next", "Return the number after n.", 0, 1},
		{"slow", "Return the number after n, 20 ms later.", 20 * time.Millisecond, 1},
	} {
		tool := &sdk.Tool{Name: t.name, Description: t.description, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true},
			InputSchema: json.RawMessage(number), OutputSchema: json.RawMessage(number)}
		server.AddTool(tool, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			var args struct{ N int }
			if err := json.Unmarshal(r.Params.Arguments, &args); err != nil {
				return nil, err
			}
			time.Sleep(t.wait)
			text := fmt.Sprintf(`{"n":%d}`, args.N+t.step)
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}, StructuredContent: json.RawMessage(text)}, nil
		})
	}
	serveSDK(ctx, in, out, server)
}

func newServer(name string) *sdk.Server {
	return sdk.NewServer(&sdk.Implementation{Name: name, Version: "1"}, nil)
}

// answering returns the work of a tool that answers with a text.
func answering(text string) sdk.ToolHandler {
	return func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil
	}
}

// serveSDK serves a server of the SDK over HTTP.
func serveSDK(ctx context.Context, in io.Reader, out io.Writer, server *sdk.Server) {
	mux := http.NewServeMux()
	get := func(*http.Request) *sdk.Server { return server }
	mux.Handle("/sessions", sdk.NewStreamableHTTPHandler(get, nil))
	mux.Handle("/stateless", sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{Stateless: true}))
	l := harness.Must(net.Listen("tcp", "127.0.0.1:0"))
	web := &http.Server{Handler: mux}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(l) }()
	context.AfterFunc(ctx, func() { web.Close() })
	url := "http://" + l.Addr().String()
	announce(in, out, Addresses{Sessions: url + "/sessions", Stateless: url + "/stateless"}, ended)
}

// announce writes the addresses of a server, and answers with Stats until its end.
func announce(in io.Reader, out io.Writer, a Addresses, ended <-chan error) {
	harness.Check(json.NewEncoder(out).Encode(a))
	go func() {
		_ = answerLines(in, out, func(struct{}) any { // an error is one of who asks
			heap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
			metrics.Read(heap)
			used, _ := proc.Self() // zero without /proc
			return Stats{Heap: int64(heap[0].Value.Uint64()), Goroutines: runtime.NumGoroutine(), Files: used.Files, Resident: used.Resident}
		})
	}()
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		harness.Check(err)
	}
}
