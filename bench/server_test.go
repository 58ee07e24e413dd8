package bench

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/steps"
)

// nothing is a function that answers at once.
func nothing() steps.Function {
	return steps.Function{
		Spec:   steps.Spec{Name: "bench.noop", Effect: steps.Read, Input: json.RawMessage(`{"type":"object"}`)},
		Prompt: true,
		Call:   func(context.Context, []byte) ([]byte, error) { return []byte(`{"ok":1}`), nil },
	}
}

type fixedSource []steps.Function

func (f fixedSource) Functions() []steps.Function { return f }
func (f fixedSource) Close() error                { return nil }

// onecallServer serves functions as onecall does, over HTTP, and returns the URL.
func onecallServer(tb testing.TB, functions ...steps.Function) string {
	tb.Helper()
	return serveLoad(tb, &serverOptions{functions: functions})
}

// maxRatio is the ratio above which something is certainly wrong, by the number of steps. The targets are 1.25 and 1.5, which a busy
// machine misses by far.
var maxRatio = map[int]float64{1: 1.7, 10: 2.4}

// BenchmarkServer compares a chain over Streamable HTTP with a bare tool call of the SDK's server that does the same
// nothing, both called with the SDK's client.
func BenchmarkServer(b *testing.B) {
	bare := sdk.NewServer(&sdk.Implementation{Name: "bare", Version: "1"}, nil)
	bare.AddTool(&sdk.Tool{Name: "noop", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: `{"ok":1}`}}}, nil
		})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return bare }, nil))
	b.Cleanup(web.Close)
	chained := onecallServer(b, nothing())
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		for _, steps := range []int{1, 10} {
			b.Run(version+"/steps="+strconv.Itoa(steps), func(b *testing.B) {
				if version == "2026-07-28" {
					stateless := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return bare },
						&sdk.StreamableHTTPOptions{Stateless: true}))
					b.Cleanup(stateless.Close)
					compareServers(b, stateless.URL, chained, version, steps)
					return
				}
				compareServers(b, web.URL, chained, version, steps)
			})
		}
	}
}

func compareServers(b *testing.B, bareURL, chainURL, version string, steps int) {
	open := func(url string) *sdk.ClientSession {
		client := sdk.NewClient(&sdk.Implementation{Name: "bench", Version: "1"}, nil)
		session, err := client.Connect(b.Context(), &sdk.StreamableClientTransport{Endpoint: url},
			&sdk.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { session.Close() })
		return session
	}
	call := func(session *sdk.ClientSession, tool, args string) arm {
		return func(b *testing.B, n int) {
			for range n {
				result, err := session.CallTool(b.Context(), &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
				if err != nil {
					b.Fatal(err)
				}
				if text := result.Content[0].(*sdk.TextContent).Text; result.IsError || text != `{"ok":1}` {
					b.Fatalf("%s answers %s, want {\"ok\":1}", tool, text)
				}
			}
		}
	}
	request := `{"lite":true,"steps":[` + strings.TrimSuffix(strings.Repeat(`{"fn":"bench.noop"},`, steps), ",") + `]}`
	if ratio := compare(b, 15, 300, call(open(bareURL), "noop", `{}`), call(open(chainURL), "chain", request)); ratio > maxRatio[steps] {
		b.Errorf("a chain of %d takes %.2f times a bare call, want at most %.2f", steps, ratio, maxRatio[steps])
	}
}
