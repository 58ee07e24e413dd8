package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// asServer in the environment makes the test binary an MCP server on stdio.
const asServer = "ONECALL_BENCH_SERVER"

// newServer returns an MCP server with two tools: next returns the number after its argument, and slow does the same after 20 ms.
func newServer() *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "bench", Version: "1"}, nil)
	add := func(name string, wait time.Duration) {
		tool := &sdk.Tool{
			Name: name, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true},
			InputSchema: json.RawMessage(`{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`),
		}
		server.AddTool(tool, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			var args struct{ N int }
			if err := json.Unmarshal(r.Params.Arguments, &args); err != nil {
				return nil, err
			}
			time.Sleep(wait)
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(`{"n":%d}`, args.N+1)}}}, nil
		})
	}
	add("next", 0)
	add("slow", 20*time.Millisecond)
	return server
}

// serveStdio serves newServer on stdio, in the test binary.
func serveStdio() {
	// In Go 1.26 and 1.27, a garbage collection that starts just as a goroutine enters a blocking read stops the whole program until
	// its next timer is due, for up to a minute. This server has no other timers.
	go func() {
		for range time.Tick(time.Second) {
		}
	}()
	if err := newServer().Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// transportCase is one way to reach a server: its transport for the bare client, and its options for onecall.
type transportCase struct {
	name      string
	transport func() sdk.Transport
	options   mcpsource.Options
}

func transports(b *testing.B) []transportCase {
	one := newServer() // one server for all sessions
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return one }, nil)
	server := httptest.NewServer(handler)
	b.Cleanup(server.Close)
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	return []transportCase{
		{"http", func() sdk.Transport { return &sdk.StreamableClientTransport{Endpoint: server.URL} }, mcpsource.Options{URL: server.URL}},
		{"stdio", func() sdk.Transport {
			command := exec.Command(self)
			command.Env = append(os.Environ(), asServer+"=1")
			return &sdk.CommandTransport{Command: command}
		}, mcpsource.Options{Command: self, Env: map[string]string{asServer: "1"}}},
	}
}

// bare opens a session of the SDK's client.
func (d *transportCase) bare(b *testing.B) *sdk.ClientSession {
	client := sdk.NewClient(&sdk.Implementation{Name: "bare", Version: "1"}, nil)
	session, err := client.Connect(b.Context(), d.transport(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { session.Close() })
	return session
}

// engine returns an engine with the server's tools as functions.
func (d *transportCase) engine(b *testing.B) *chain.Engine {
	options := d.options
	options.Name = "bench"
	source, err := mcpsource.New(&options)
	if err != nil {
		b.Fatal(err)
	}
	catalog, err := steps.NewCatalog(nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { catalog.Close() })
	if err := catalog.Add("bench", source); err != nil {
		b.Fatal(err)
	}
	if functions := steps.Await(b.Context(), catalog, nil); functions.Len() != 2 {
		b.Fatalf("%d functions, want 2: %+v", functions.Len(), source.Status())
	}
	engine, err := chain.New(&chain.Options{Functions: catalog})
	if err != nil {
		b.Fatal(err)
	}
	return engine
}

// callTool makes one call as a program does with the SDK's client, and reads the answer as JSON.
func callTool(b *testing.B, session *sdk.ClientSession, tool string, n int) int {
	result, err := session.CallTool(b.Context(), &sdk.CallToolParams{Name: tool, Arguments: map[string]any{"n": n}})
	if err != nil {
		b.Fatal(err)
	}
	var answer struct{ N int }
	if err := json.Unmarshal([]byte(result.Content[0].(*sdk.TextContent).Text), &answer); err != nil {
		b.Fatal(err)
	}
	return answer.N
}

func runLite(b *testing.B, engine *chain.Engine, request []byte, want string) {
	if a := engine.Run(b.Context(), request, nil); string(a.JSON) != want {
		b.Fatalf("answered %s, want %s", a.JSON, want)
	}
}

// BenchmarkDependentCalls compares ten calls, each with the result of the one before, by the SDK's client and by a chain.
func BenchmarkDependentCalls(b *testing.B) {
	request := []byte(`{"lite":true,"steps":[{"fn":"bench.next","args":{"n":0}}`)
	for i := range 9 {
		request = fmt.Appendf(request, `,{"fn":"bench.next","args":{"n":"$%d.n"}}`, i)
	}
	request = append(request, "]}"...)
	for _, d := range transports(b) {
		b.Run(d.name, func(b *testing.B) {
			session, engine := d.bare(b), d.engine(b)
			bare := func(b *testing.B, times int) {
				for range times {
					n := 0
					for range 10 {
						n = callTool(b, session, "next", n)
					}
					if n != 10 {
						b.Fatalf("got %d after 10 calls, want 10", n)
					}
				}
			}
			chained := func(b *testing.B, times int) {
				for range times {
					runLite(b, engine, request, `{"n":10}`)
				}
			}
			for b.Loop() {
				compare(b, 15, 40, bare, chained)
			}
		})
	}
}

// BenchmarkIndependentReads compares one call that takes 20 ms with a chain of ten such calls that need not wait for one
// another.
func BenchmarkIndependentReads(b *testing.B) {
	request := []byte(`{"lite":true,"return":"$0.n","steps":[{"fn":"bench.slow","args":{"n":0}}`)
	for range 9 {
		request = append(request, `,{"fn":"bench.slow","args":{"n":0}}`...)
	}
	request = append(request, "]}"...)
	for _, d := range transports(b) {
		b.Run(d.name, func(b *testing.B) {
			session, engine := d.bare(b), d.engine(b)
			one := func(b *testing.B, times int) {
				for range times {
					if n := callTool(b, session, "slow", 0); n != 1 {
						b.Fatalf("got %d, want 1", n)
					}
				}
			}
			ten := func(b *testing.B, times int) {
				for range times {
					runLite(b, engine, request, `1`)
				}
			}
			for b.Loop() {
				compare(b, 11, 5, one, ten)
			}
		})
	}
}
