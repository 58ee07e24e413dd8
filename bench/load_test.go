package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// The versions of MCP that are measured: the last one with sessions, and the first one without.
const (
	withSessions    = "2025-11-25"
	withoutSessions = "2026-07-28"
)

// loaded is a server under load, and how it is called.
type loaded struct {
	url, token string // token "": none is sent
	tool, args string
	want       string // the text of each answer
	version    string
	clients    []http.Client
	sessions   []string // one for each client
}

// noHurry is longer than a busy machine takes for anything here.
const noHurry = 10 * time.Minute

// newLoaded opens what clients need, for one after the other: each has a connection of its own, and a session where the version
// has them.
func newLoaded(tb testing.TB, l loaded, clients int) *loaded {
	tb.Helper()
	l.clients, l.sessions = make([]http.Client, clients), make([]string, clients)
	for i := range clients {
		transport := &http.Transport{}
		tb.Cleanup(transport.CloseIdleConnections)
		l.clients[i] = http.Client{Transport: transport, Timeout: noHurry}
		if l.version >= withoutSessions {
			l.open(tb, i, "tools/list", `{"jsonrpc":"2.0","id":0,"method":"tools/list","params":{`+l.meta()+`}}`)
			continue
		}
		l.sessions[i] = l.open(tb, i, "initialize", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+l.version+`","capabilities":{},"clientInfo":{"name":"load","version":"1"}}}`)
		if l.sessions[i] == "" {
			tb.Fatalf("client %d has no session", i)
		}
		l.open(tb, i, "notifications/initialized", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	return &l
}

// open sends what a client sends before its calls, and gives the session of the answer. What else is in it does not matter.
func (l *loaded) open(tb testing.TB, client int, method, body string) (session string) {
	tb.Helper()
	r, err := l.clients[client].Do(l.request(tb, client, body, method))
	if err != nil {
		tb.Fatal(err)
	}
	defer r.Body.Close()
	if text, err := io.ReadAll(r.Body); err != nil || r.StatusCode/100 != 2 {
		tb.Fatalf("client %d: %s is answered %s: %v %.500s", client, method, r.Status, err, text)
	}
	return r.Header.Get("Mcp-Session-Id")
}

// meta is what a request says of its client, where the version has no sessions.
func (l *loaded) meta() string {
	return `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + l.version + `","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"load","version":"1"}}`
}

func (l *loaded) request(tb testing.TB, client int, body, method string) *http.Request {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, l.url, strings.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if l.token != "" {
		r.Header.Set("Authorization", "Bearer "+l.token)
	}
	if method != "initialize" {
		r.Header.Set("Mcp-Protocol-Version", l.version)
	}
	if l.version >= withoutSessions {
		r.Header.Set("Mcp-Method", method)
		if method == "tools/call" {
			r.Header.Set("Mcp-Name", l.tool)
		}
	} else if id := l.sessions[client]; id != "" {
		r.Header.Set("Mcp-Session-Id", id)
	}
	return r
}

// call makes one call, and checks the whole of its answer: an answer to another's call is none.
func (l *loaded) call(tb testing.TB, client, number int) error {
	meta := ""
	if l.version >= withoutSessions {
		meta = "," + l.meta()
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s%s}}`, number, l.tool, l.args, meta)
	r, err := l.clients[client].Do(l.request(tb, client, body, "tools/call"))
	if err != nil {
		return err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	message := text
	if _, data, found := bytes.Cut(text, []byte("data: ")); found {
		message = bytes.TrimSpace(data)
	}
	answer := gjson.GetManyBytes(message, "id", "result.content.0.text", "result.isError")
	if r.StatusCode != http.StatusOK || !gjson.ValidBytes(message) || answer[0].Int() != int64(number) || answer[1].Str != l.want || answer[2].Bool() {
		return fmt.Errorf("call %d is answered %s: %.500s", number, r.Status, text)
	}
	return nil
}

// run has clients make calls, n in all, each its next one as soon as it has the answer to the one before. It gives how long each
// took.
func (l *loaded) run(tb testing.TB, clients, n int) []time.Duration {
	tb.Helper()
	took := make([]time.Duration, n)
	var next atomic.Int64
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for {
				number := int(next.Add(1)) - 1
				if number >= n {
					return
				}
				began := time.Now()
				if err := l.call(tb, client, number); err != nil {
					tb.Error(err)
					return
				}
				took[number] = time.Since(began)
			}
		})
	}
	all.Wait()
	return took
}

// arm makes an arm of it for compare.
func (l *loaded) arm(clients int) arm {
	return func(b *testing.B, n int) { l.run(b, clients, n) }
}

// server is onecall over HTTP with a choice of what it does beside.
type serverOptions struct {
	functions []steps.Function
	callers   transport.Callers
	observer  chain.Observer
	wrap      func(*steps.Registry) *steps.Registry
	results   *budget.Results
	journal   *journal.Journal
	probe     int // tokens above which a result is a probe
}

// serveLoad serves functions without any bound of sessions and calls; it gives the URL.
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
	if err := catalog.Add("bench", fixed(s.functions)); err != nil {
		tb.Fatal(err)
	}
	counter, err := budget.NewCounter("", 0)
	if err != nil {
		tb.Fatal(err)
	}
	engine, err := chain.New(&chain.Options{Functions: catalog, Counter: counter, MaxTotalTokens: 10_000, MaxDuration: noHurry, Results: s.results, Journal: s.journal, ProbeAbove: s.probe, Observer: s.observer})
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
	bare.AddTool(&sdk.Tool{Name: "noop", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: `{"ok":1}`}}}, nil
	})
	urls := map[string]string{}
	for version, stateless := range map[string]bool{withSessions: false, withoutSessions: true} {
		web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return bare }, &sdk.StreamableHTTPOptions{Stateless: stateless}))
		tb.Cleanup(web.Close)
		urls[version] = web.URL
	}
	return urls
}

// tenNoops is a chain of ten steps that do nothing.
var tenNoops = `{"lite":true,"steps":[` + strings.TrimSuffix(strings.Repeat(`{"fn":"bench.noop"},`, 10), ",") + `]}`

func ownLoad(url, version string) loaded {
	return loaded{url: url, tool: "chain", args: tenNoops, want: `{"ok":1}`, version: version}
}

// TestThousandChains has a thousand chains under way at the same moment, more than once: none is lost, and each gets its own
// answer.
func TestThousandChains(t *testing.T) {
	if raceEnabled {
		t.Skip("beside other tests the race detector makes it so slow that what bounds a request ends some: it is run without")
	}
	const chains = 1000
	var mu sync.Mutex
	arrived, open := 0, make(chan struct{})
	together := steps.Function{
		Spec: steps.Spec{Name: "bench.together", Effect: steps.Read, Input: json.RawMessage(`{"type":"object"}`), Timeout: noHurry},
		Call: func(ctx context.Context, _ []byte) ([]byte, error) {
			mu.Lock()
			gate := open
			if arrived++; arrived == chains {
				arrived, open = 0, make(chan struct{})
				close(gate)
			}
			mu.Unlock()
			select {
			case <-gate:
				return []byte(`{"ok":1}`), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
	}
	url := serveLoad(t, &serverOptions{functions: []steps.Function{nothing(), together}})
	for _, version := range []string{withSessions, withoutSessions} {
		load := ownLoad(url, version)
		load.args = strings.Replace(load.args, `"bench.noop"`, `"bench.together"`, 1)
		took := newLoaded(t, load, chains).run(t, chains, 3*chains)
		slices.Sort(took)
		t.Logf("%s: %d chains, %d at a time: median %v, 99%% within %v", version, len(took), chains, took[len(took)/2], took[len(took)*99/100])
	}
}

// leastRate is what the chains a second may be of the bare calls a second before something is certainly wrong: 0.6 is asked,
// of which a busy machine is far off.
const leastRate = 0.4

// BenchmarkLoad compares a thousand clients that run chains of ten no-ops with as many that call a tool of the SDK's bare
// server which does nothing, and looks at how long chains take at half that load.
func BenchmarkLoad(b *testing.B) {
	const clients, rounds, calls = 1000, 11, 1500
	bare, own := bareServers(b), serveLoad(b, &serverOptions{functions: []steps.Function{nothing()}})
	for _, version := range []string{withSessions, withoutSessions} {
		b.Run(version, func(b *testing.B) {
			chains := newLoaded(b, ownLoad(own, version), clients)
			tools := newLoaded(b, loaded{url: bare[version], tool: "noop", args: `{}`, want: `{"ok":1}`, version: version}, clients)
			for b.Loop() {
				ratio := compare(b, rounds, calls, chains.arm(clients), tools.arm(clients)) // of the times: of the rates it is the inverse
				b.ReportMetric(ratio, "rate-ratio")
				if ratio < leastRate {
					b.Errorf("%.2f chains in the time of a call", ratio)
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
