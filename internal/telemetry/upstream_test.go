//go:build !notrace

package telemetry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/telemetry"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// upstream returns a catalog with an MCP server over HTTP, whose tool answers with the trace that its call is part of.
func upstream(t *testing.T) *steps.Catalog {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "up", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "trace", InputSchema: json.RawMessage(`{"type":"object"}`),
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			received, err := json.Marshal(map[string]any{"parent": r.Params.Meta["traceparent"], "state": r.Params.Meta["tracestate"]})
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(received)}}}, err
		})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(web.Close)
	source, err := mcpsource.New(&mcpsource.Options{Name: "up", URL: web.URL})
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := steps.NewCatalog(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { catalog.Close() })
	if err := catalog.Add("up", source); err != nil {
		t.Fatal(err)
	}
	steps.Await(t.Context(), catalog, nil)
	return catalog
}

const (
	clientTrace  = "0af7651916cd43dd8448eb211c80319c"
	clientParent = "00-" + clientTrace + "-b7ad6b7169203331-0"
)

// TestUpstreamTrace checks that a server that a step calls gets the step's span, in the client's trace, and whether it is sampled. If
// onecall sends no traces, the server gets nothing.
func TestUpstreamTrace(t *testing.T) {
	catalog := upstream(t)
	for name, test := range map[string]struct {
		set   []string
		flag  string // the client's trace flag
		want  string // the trace flags that the server gets; "": no trace is sent
		spans int
	}{
		"traced":                     {nil, "1", "01", 5},
		"not sampled":                {nil, "0", "00", 0},
		"the sampler is off":         {[]string{"OTEL_TRACES_SAMPLER", "always_off"}, "1", "00", 0},
		"no traces":                  {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", ""}, "1", "", 0},
		"all, whatever clients want": {[]string{"OTEL_TRACES_SAMPLER", "always_on"}, "0", "01", 5},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSink(t)
			setTraceEnv(t, s, test.set...)
			b := start(t, slog.LevelError, telemetry.Options{})
			e, err := chain.New(&chain.Options{Functions: catalog, Observer: b.Telemetry})
			if err != nil {
				t.Fatal(err)
			}
			ctx := telemetry.WithCall(context.Background(), "", clientParent+test.flag, "vendor=x")
			answer := e.Run(ctx,
				[]byte(`{"lite":true,"steps":[{"fn":"up.trace"},{"fn":"up.trace"},{"chain":{"steps":[{"fn":"up.trace"}]}}],"return":["$0","$1","$2"]}`), nil)
			if err := b.Close(context.Background()); err != nil || !answer.OK {
				t.Fatalf("got %v, %s, want ok", err, answer.JSON)
			}
			if len(s.spans) != test.spans {
				t.Errorf("%d spans, want %d", len(s.spans), test.spans)
			}
			steps := s.byName("execute_tool up.trace")
			for i, received := range gjson.ParseBytes(answer.JSON).Array() {
				parent := received.Get("parent").Str
				switch {
				case test.want == "" && received.Raw != `{"parent":null,"state":null}`:
					t.Errorf("step %d: the server received %s, want neither parent nor state", i, received.Raw)
				case test.want == "":
				case !strings.HasPrefix(parent, "00-"+clientTrace+"-") || !strings.HasSuffix(parent, "-"+test.want) ||
					received.Get("state").Str != "vendor=x" || strings.HasPrefix(parent, clientParent):
					t.Errorf("step %d: the server received %s, want a new parent in trace %s with flags %s, and vendor=x",
						i, received.Raw, clientTrace, test.want)
				case test.spans > 0:
					count := 0
					for _, span := range steps {
						position := attributes(span.Attributes)["onecall.step.at"]
						if strings.Contains(parent, fmt.Sprintf("-%x-", span.SpanId)) && strings.HasPrefix(position, fmt.Sprint("/steps/", i)) {
							count++
						}
					}
					if count != 1 {
						t.Errorf("step %d: %s is the span of %d steps, want 1", i, parent, count)
					}
				}
			}
		})
	}
}

// TestPassThroughTrace checks that calls that a transport makes by itself belong to the span of their request.
func TestPassThroughTrace(t *testing.T) {
	s := newSink(t)
	setTraceEnv(t, s)
	b := start(t, slog.LevelError, telemetry.Options{})
	ctx, end := b.engine.Observe(context.Background(), &chain.RequestInfo{Kind: chain.KindPass})
	parent, _ := steps.Trace(ctx)
	end(&chain.RequestEnd{})
	if err := b.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	span := s.byName("pass")[0]
	if want := fmt.Sprintf("00-%x-%x-01", span.TraceId, span.SpanId); parent != want {
		t.Errorf("the context has the parent %q, want %q", parent, want)
	}
}

// TestTraceOfUntracedSteps checks that calls of steps without spans, because there are too many, get the enclosing span.
func TestTraceOfUntracedSteps(t *testing.T) {
	s := newSink(t)
	setTraceEnv(t, s)
	b := start(t, slog.LevelError, telemetry.Options{})
	ctx, end := b.Request(context.Background(), &chain.RequestInfo{Kind: chain.KindChain})
	requestSpan, _ := steps.Trace(ctx)
	parents := map[string]int{}
	for range 1003 {
		stepCtx, endStep := b.Step(ctx, chain.StepInfo{At: "/steps/0", Function: "bare"})
		parent, _ := steps.Trace(stepCtx)
		parents[parent]++
		endStep(chain.StepEnd{Status: "ok", Elements: -1})
	}
	end(&chain.RequestEnd{})
	if len(parents) != 1001 || parents[requestSpan] != 3 {
		t.Errorf("%d parents, want 1001; %d calls with the span of the request, want 3", len(parents), parents[requestSpan])
	}
}
