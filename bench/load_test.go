package bench

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/bench/load"
	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// loadedServer has the clients of a server under load.
type loadedServer struct{ *load.Clients }

// longTimeout is longer than anything here takes on a busy machine.
const longTimeout = 10 * time.Minute

// newLoaded opens clients of a target.
func newLoaded(tb testing.TB, target load.Target, clients int) loadedServer {
	tb.Helper()
	all, err := load.Open(context.Background(), target, clients)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(all.Close)
	return loadedServer{all}
}

// run makes n calls from clients and returns their times.
func (l loadedServer) run(tb testing.TB, clients, n int) []time.Duration {
	tb.Helper()
	took, failed, err := l.Run(context.Background(), clients, n)
	if err != nil {
		tb.Fatalf("%d of %d calls failed, the first: %v", failed, n, err)
	}
	return took
}

// arm returns an arm for compare.
func (l loadedServer) arm(clients int) arm {
	return func(b *testing.B, n int) { l.run(b, clients, n) }
}

// serverOptions configure a server of onecall over HTTP.
type serverOptions struct {
	functions []steps.Function
	callers   transport.Callers
	observer  chain.Observer
	wrap      func(*steps.Registry) *steps.Registry
	results   *budget.Results
	journal   *journal.Journal
	probe     int // tokens above which a result is a probe
}

// serveLoad serves functions without limits of sessions and calls, and returns the URL.
func serveLoad(tb testing.TB, s *serverOptions) string {
	tb.Helper()
	options := &steps.CatalogOptions{}
	if s.wrap != nil {
		options.Wrap = func(r *steps.Registry) (*steps.Registry, error) { return s.wrap(r), nil }
	}
	catalog, err := steps.NewCatalog(options)
	if err != nil {
		tb.Fatal(err)
	}
	if err := catalog.Add("bench", fixedSource(s.functions)); err != nil {
		tb.Fatal(err)
	}
	counter, err := budget.NewCounter("", 0)
	if err != nil {
		tb.Fatal(err)
	}
	engine, err := chain.New(&chain.Options{Functions: catalog, Counter: counter, MaxTotalTokens: 10_000, MaxDuration: longTimeout,
		Results: s.results, Journal: s.journal, ProbeAbove: s.probe, Observer: s.observer})
	if err != nil {
		tb.Fatal(err)
	}
	server, err := mcp.New(&mcp.Options{Engine: engine, Catalog: catalog, Counter: counter, MaxTotalTokens: 10_000,
		Options: transport.Options{MaxSessions: 100_000, CallerCalls: -1}})
	if err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- server.ServeHTTP(ctx, l, &transport.Access{Anyone: steps.Caller{ID: "bench"}, Callers: s.callers})
	}()
	tb.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Error(err)
		}
		server.Close()
		catalog.Close()
	})
	return "http://" + l.Addr().String() + transport.Path
}

// bareServers are the SDK's server with a tool that does nothing, by version of MCP.
func bareServers(tb testing.TB) map[string]string {
	tb.Helper()
	bare := sdk.NewServer(&sdk.Implementation{Name: "bare", Version: "1"}, nil)
	bare.AddTool(&sdk.Tool{Name: "noop", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: `{"ok":1}`}}}, nil
		})
	urls := map[string]string{}
	for version, stateless := range map[string]bool{load.WithSessions: false, load.WithoutSessions: true} {
		web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return bare },
			&sdk.StreamableHTTPOptions{Stateless: stateless}))
		tb.Cleanup(web.Close)
		urls[version] = web.URL
	}
	return urls
}

// tenNoops is a chain of ten steps that do nothing.
var tenNoops = `{"lite":true,"steps":[` + strings.TrimSuffix(strings.Repeat(`{"fn":"bench.noop"},`, 10), ",") + `]}`

func chainLoad(url, version string) load.Target {
	return load.Target{URL: url, Version: version, Tool: "chain", Args: tenNoops, Want: `{"ok":1}`}
}

// TestThousandChains runs a thousand chains at the same time, more than once: none is lost, and each gets its own answer.
func TestThousandChains(t *testing.T) {
	if raceEnabled {
		t.Skip("with the race detector some requests time out; run it without")
	}
	const chains = 1000
	var mu sync.Mutex
	arrived, gate := 0, make(chan struct{})
	together := steps.Function{
		Spec: steps.Spec{Name: "bench.together", Effect: steps.Read, Input: json.RawMessage(`{"type":"object"}`), Timeout: longTimeout},
		Call: func(ctx context.Context, _ []byte) ([]byte, error) {
			mu.Lock()
			opened := gate
			if arrived++; arrived == chains {
				arrived, gate = 0, make(chan struct{})
				close(opened)
			}
			mu.Unlock()
			select {
			case <-opened:
				return []byte(`{"ok":1}`), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
	}
	url := serveLoad(t, &serverOptions{functions: []steps.Function{nothing(), together}})
	for _, version := range []string{load.WithSessions, load.WithoutSessions} {
		target := chainLoad(url, version)
		target.Args = strings.Replace(target.Args, `"bench.noop"`, `"bench.together"`, 1)
		took := newLoaded(t, target, chains).run(t, chains, 3*chains)
		slices.Sort(took)
		t.Logf("%s: %d chains, %d at a time: median %v, 99%% within %v", version, len(took), chains, took[len(took)/2], took[len(took)*99/100])
	}
}

// minRate is the ratio of chains per second to bare calls per second below which something is certainly wrong. The target is 0.6, which a
// busy machine misses by far.
const minRate = 0.4

// BenchmarkLoad compares a thousand clients that run chains of ten no-ops with as many that call a tool of the SDK's bare
// server which does nothing, and measures the times of chains at half that load.
func BenchmarkLoad(b *testing.B) {
	const clients, rounds, calls = 1000, 11, 1500
	bare, chained := bareServers(b), serveLoad(b, &serverOptions{functions: []steps.Function{nothing()}})
	for _, version := range []string{load.WithSessions, load.WithoutSessions} {
		b.Run(version, func(b *testing.B) {
			chains := newLoaded(b, chainLoad(chained, version), clients)
			tools := newLoaded(b, load.Target{URL: bare[version], Version: version, Tool: "noop", Args: `{}`, Want: `{"ok":1}`}, clients)
			for b.Loop() {
				ratio := compare(b, rounds, calls, chains.arm(clients), tools.arm(clients)) // ratio of times, the inverse of that of rates
				b.ReportMetric(ratio, "rate-ratio")
				if ratio < minRate {
					b.Errorf("%.2f chains in the time of a call, want at least %.2f", ratio, minRate)
				}
				var tails []float64
				for range rounds {
					took := chains.run(b, clients/2, calls)
					slices.Sort(took)
					tails = append(tails, float64(took[len(took)*99/100])/float64(took[len(took)/2]))
				}
				slices.Sort(tails)
				b.ReportMetric(tails[rounds/2], "p99/p50")
			}
		})
	}
}
