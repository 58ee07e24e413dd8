package work

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/metrics"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
)

// Addresses is the line of JSON that a server writes to its output as soon as it can be called.
type Addresses struct {
	Sessions  string `json:"sessions"`  // the URL for versions of MCP with sessions
	Stateless string `json:"stateless"` // the URL for versions without sessions
	Stats     string `json:"stats"`     // the URL that answers Stats
}

// Stats says what a server uses.
type Stats struct {
	Heap       int64 `json:"heap"` // bytes that were live at the end of the last collection
	Goroutines int   `json:"goroutines"`
	Files      int   `json:"files"`
	Resident   int64 `json:"resident"` // the resident memory in bytes
}

// serve serves onecall over HTTP with bench.noop, bench.slow and bench.large, whose result is kept only for seconds.
func serve(ctx context.Context, out io.Writer) error {
	catalog, err := catalogOf(nil)
	if err != nil {
		return err
	}
	defer catalog.Close()
	if err := catalog.Add("bench", source{noop(), slow(), largeFunction(largeResult(100_000))}); err != nil {
		return err
	}
	engine, err := newEngine(catalog, 2*time.Second)
	if err != nil {
		return err
	}
	url, ended, err := listen(ctx, engine, catalog)
	if err != nil {
		return err
	}
	return announce(out, Addresses{Sessions: url, Stateless: url}, ended)
}

// upstream serves the SDK's server, whose tool noop does nothing.
func upstream(ctx context.Context, out io.Writer) error {
	server := sdk.NewServer(&sdk.Implementation{Name: "bare", Version: "1"}, nil)
	read := &sdk.ToolAnnotations{ReadOnlyHint: true}
	noop := &sdk.Tool{Name: "noop", Annotations: read, InputSchema: json.RawMessage(`{"type":"object"}`)}
	server.AddTool(noop, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: `{"id":"a-1","value":7}`}}}, nil
	})
	mux := http.NewServeMux()
	get := func(*http.Request) *sdk.Server { return server }
	mux.Handle("/sessions", sdk.NewStreamableHTTPHandler(get, nil))
	mux.Handle("/stateless", sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{Stateless: true}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	web := &http.Server{Handler: mux}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(l) }()
	context.AfterFunc(ctx, func() { web.Close() })
	url := "http://" + l.Addr().String()
	err = announce(out, Addresses{Sessions: url + "/sessions", Stateless: url + "/stateless"}, ended)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// announce writes the addresses of a server, and waits for its end.
func announce(out io.Writer, a Addresses, ended <-chan error) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	stats := &http.Server{Handler: http.HandlerFunc(serveStats), ReadHeaderTimeout: time.Minute}
	go func() { _ = stats.Serve(l) }()
	defer stats.Close()
	a.Stats = "http://" + l.Addr().String()
	if err := json.NewEncoder(out).Encode(a); err != nil {
		return err
	}
	return <-ended
}

func serveStats(w http.ResponseWriter, _ *http.Request) {
	heap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(heap)
	used, err := proc.Self()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s := Stats{Heap: int64(heap[0].Value.Uint64()), Goroutines: runtime.NumGoroutine(), Files: used.Files, Resident: used.Resident}
	_ = json.NewEncoder(w).Encode(s)
}
