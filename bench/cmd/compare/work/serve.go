package work

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
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

// serve serves onecall over HTTP with bench.noop, bench.slow and bench.large, whose result is kept only for seconds. If an MCP server is
// named, its tools are the functions of the source up. If files are named for profiles, it writes its own profiles to them when it ends.
func serve(ctx context.Context, args []string, out io.Writer) error {
	var upstream, version, cpu, allocations string
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	flags.StringVar(&upstream, "upstream", "", "the `URL` of an MCP server")
	flags.StringVar(&version, "version", "", "the `version` of MCP that is spoken to it")
	flags.StringVar(&cpu, "cpuprofile", "", "a `file` for the profile of the processor")
	flags.StringVar(&allocations, "allocprofile", "", "a `file` for the profile of allocations")
	if err := flags.Parse(args); err != nil {
		return err
	}
	catalog, err := catalogOf(nil)
	if err != nil {
		return err
	}
	defer catalog.Close()
	if err := catalog.Add("bench", source{noop(), slow(), largeFunction(largeResult(100_000))}); err != nil {
		return err
	}
	if upstream != "" {
		if err := addUpstream(ctx, catalog, upstream, version); err != nil {
			return err
		}
	}
	engine, err := newEngine(catalog, 2*time.Second)
	if err != nil {
		return err
	}
	profiled, err := profile(cpu, allocations)
	if err != nil {
		return err
	}
	url, ended, err := listen(ctx, engine, catalog)
	if err != nil {
		return err
	}
	err = announce(out, Addresses{Sessions: url, Stateless: url}, ended)
	return errors.Join(err, profiled())
}

// addUpstream adds the tools of an MCP server, and waits until they can be called.
func addUpstream(ctx context.Context, catalog *steps.Catalog, url, version string) error {
	up, err := mcpsource.New(&mcpsource.Options{Name: "up", URL: url, Protocol: version})
	if err != nil {
		return err
	}
	if err := catalog.Add("up", up); err != nil {
		return err
	}
	if _, err := steps.Await(ctx, catalog, nil).Resolve("up.next"); err != nil {
		return fmt.Errorf("%w; the source is %+v", err, up.Status())
	}
	return nil
}

// profile begins profiling. end writes the profiles to the files cpu and allocations; "": that profile is not made.
func profile(cpu, allocations string) (end func() error, err error) {
	var toCPU *os.File
	if cpu != "" {
		if toCPU, err = os.Create(cpu); err != nil {
			return nil, err
		}
		if err := pprof.StartCPUProfile(toCPU); err != nil {
			return nil, err
		}
	}
	if allocations != "" {
		runtime.MemProfileRate = 4096 // one sample for about each 4 KiB allocated; the default is 512 KiB
	}
	return func() error {
		var failed error
		if toCPU != nil {
			pprof.StopCPUProfile()
			failed = toCPU.Close()
		}
		if allocations == "" {
			return failed
		}
		to, err := os.Create(allocations)
		if err != nil {
			return err
		}
		return errors.Join(failed, pprof.Lookup("allocs").WriteTo(to, 0), to.Close())
	}, nil
}

// upstream serves the SDK's server: noop does nothing, next returns the number after its argument.
func upstream(ctx context.Context, out io.Writer) error {
	server := sdk.NewServer(&sdk.Implementation{Name: "bare", Version: "1"}, nil)
	read := &sdk.ToolAnnotations{ReadOnlyHint: true}
	noop := &sdk.Tool{Name: "noop", Annotations: read, InputSchema: json.RawMessage(`{"type":"object"}`)}
	server.AddTool(noop, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: `{"id":"a-1","value":7}`}}}, nil
	})
	next := &sdk.Tool{Name: "next", Annotations: read, InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)}
	server.AddTool(next, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var args struct{ N int }
		if err := json.Unmarshal(r.Params.Arguments, &args); err != nil {
			return nil, err
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(`{"n":%d}`, args.N+1)}}}, nil
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
