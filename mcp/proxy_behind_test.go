package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// upstreamServer is an upstream for tests: the SDK's server over HTTP.
type upstreamServer struct {
	name   string
	server *sdk.Server
	source *mcpsource.Source
	front  *httptest.Server
}

// Name, Capabilities, Link and Within implement Upstream.
func (b *upstreamServer) Name() string                          { return b.name }
func (b *upstreamServer) Capabilities() *sdk.ServerCapabilities { return b.source.Capabilities() }
func (b *upstreamServer) OpenSession(ctx context.Context, client *mcpsource.DownstreamClient) (*mcpsource.UpstreamSession, error) {
	return b.source.OpenSession(ctx, client)
}

func (b *upstreamServer) Within(ctx context.Context, params json.RawMessage, open func(context.Context) (*mcpsource.UpstreamSession,
	error)) context.Context {
	return b.source.Within(ctx, params, open)
}

// newUpstream returns an upstream over HTTP with the server of buildUpstream.
func newUpstream(t testing.TB, name string, stateless bool) *upstreamServer {
	t.Helper()
	b := buildUpstream(name)
	b.start(t, sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return b.server },
		&sdk.StreamableHTTPOptions{Stateless: stateless}))
	return b
}

// buildUpstream returns a server that has one item of each kind, named after it, and some items that all upstreams have.
func buildUpstream(name string) *upstreamServer {
	b := &upstreamServer{name: name}
	b.server = sdk.NewServer(&sdk.Implementation{Name: name, Version: "1"}, &sdk.ServerOptions{
		SubscribeHandler:   func(context.Context, *sdk.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
		CompletionHandler: func(_ context.Context, r *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
			return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{name + ":" + r.Params.Ref.Name +
				r.Params.Ref.URI}}}, nil
		},
		PageSize: 2,
	})
	say := func(text string) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
	}
	tool := func(tool string, h sdk.ToolHandler) {
		b.server.AddTool(&sdk.Tool{Name: tool, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: name != "writer"},
			InputSchema: json.RawMessage(`{"type":"object"}`)}, h)
	}
	tool(name+"_ask", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return say(elicitText(r.Session.Elicit(ctx, &sdk.ElicitParams{Message: string(r.Params.Arguments),
			RequestedSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string","title":"X"}}}`)}))), nil
	})
	tool(name+"_sample", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return say(sampleText(ctx, r.Session)), nil
	})
	tool(name+"_roots", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		roots, err := r.Session.ListRoots(ctx, nil) //nolint:staticcheck // servers still ask for roots
		return say(rootsText(roots, err)), nil
	})
	tool(name+"_session", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return say(r.Session.ID()), nil
	})
	tool(name+"_tell", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for i := range 3 {
			//nolint:staticcheck // servers still log
			_ = r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "warning", Logger: name, Data: fmt.Sprint("told ", i)})
			if token := r.Params.GetProgressToken(); token != nil {
				_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: float64(i + 1), Total: 3})
			}
		}
		return say("told"), nil
	})
	tool(name+"_touch", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return say("touched"), b.server.ResourceUpdated(ctx, &sdk.ResourceUpdatedNotificationParams{URI: gjson.GetBytes(r.Params.Arguments,
			"uri").String()})
	})
	tool(name+"_exact", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Meta: sdk.Meta{"mine": 1}, Content: []sdk.Content{&sdk.ImageContent{Data: []byte("png"),
			MIMEType: "image/png"},
			&sdk.ResourceLink{URI: "a://b", Name: "b", Meta: sdk.Meta{"x": true}}}, StructuredContent: json.RawMessage(`{"big":12345678901234567890,"x":1.50}`)}, nil
	})
	tool(name+"_fail", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return nil, &jsonrpc.Error{Code: -32042, Message: "go there", Data: json.RawMessage(`{"elicitations":[]}`)}
	})
	tool(name+"_input", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if answer, ok := r.Params.InputResponses["q"].(*sdk.ElicitResult); ok {
			return say(fmt.Sprint(r.Params.RequestState, " ", answer.Content["a"])), nil
		}
		return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": &sdk.ElicitParams{Message: "which?"}}, RequestState: "s1"}, nil
	})
	for _, uri := range []string{"only://" + name, "same://thing", "more://" + name} {
		b.server.AddResource(&sdk.Resource{Name: name, URI: uri, Icons: []sdk.Icon{{Source: "x"}}}, b.read)
	}
	b.server.AddResourceTemplate(&sdk.ResourceTemplate{Name: "t", URITemplate: name + "://{id}/data"}, b.read)
	for _, prompt := range []string{"same", "only_" + name} {
		b.server.AddPrompt(&sdk.Prompt{Name: prompt}, func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return &sdk.GetPromptResult{Description: name + ":" + r.Params.Name, Messages: []*sdk.PromptMessage{}}, nil
		})
	}
	return b
}

// start serves the upstream with an HTTP handler.
func (b *upstreamServer) start(t testing.TB, h http.Handler) {
	t.Helper()
	b.front = httptest.NewServer(h)
	t.Cleanup(func() {
		b.front.CloseClientConnections()
		go b.front.Close()
	})
	b.open(t, &mcpsource.Options{Name: b.name, URL: b.front.URL, Roots: true})
}

// open opens the upstream as a source.
func (b *upstreamServer) open(t testing.TB, o *mcpsource.Options) {
	t.Helper()
	source, err := mcpsource.New(o)
	if err != nil {
		t.Fatal(err)
	}
	b.source = source
}

// stdioUpstream makes the test program serve buildUpstream over stdio, in place of the tests.
const stdioUpstream = "ONECALL_TEST_STDIO_UPSTREAM"

func TestMain(m *testing.M) {
	if name := os.Getenv(stdioUpstream); name != "" {
		if err := buildUpstream(name).server.Run(context.Background(), &sdk.StdioTransport{}); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// newStdioUpstream returns an upstream over stdio with the server of buildUpstream.
func newStdioUpstream(t testing.TB, name string) *upstreamServer {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := &upstreamServer{name: name}
	b.open(t, &mcpsource.Options{Name: name, Command: program, Env: map[string]string{stdioUpstream: name}, Roots: true,
		Protocol: statefulVersion})
	return b
}

// slowUpstream is an upstream that answers nothing before open is closed.
type slowUpstream struct {
	*upstreamServer
	open chan struct{}
}

func newSlowUpstream(t testing.TB, name string) *slowUpstream {
	t.Helper()
	ready := newUpstream(t, name, false)
	b := &slowUpstream{&upstreamServer{name: name, server: ready.server}, make(chan struct{})}
	t.Cleanup(func() { _ = ready.source.Close() })
	inner := ready.front.Config.Handler
	b.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-b.open:
			inner.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}))
	return b
}

func elicitText(answer *sdk.ElicitResult, err error) string {
	if err != nil {
		return "refused: " + err.Error()
	}
	return fmt.Sprint(answer.Action, " ", answer.Content["a"])
}

// rootsText describes how many roots a client has.
func rootsText(roots *sdk.ListRootsResult, err error) string { //nolint:staticcheck // servers still ask for roots
	if err != nil {
		return "refused: " + err.Error()
	}
	return fmt.Sprint(len(roots.Roots), " roots")
}

// sampleText returns what a client samples.
//
//nolint:staticcheck // servers still sample
func sampleText(ctx context.Context, ss *sdk.ServerSession) string {
	answer, err := ss.CreateMessage(ctx, &sdk.CreateMessageParams{MaxTokens: 5, Messages: []*sdk.SamplingMessage{{Role: "user",
		Content: &sdk.TextContent{Text: "hi"}}}})
	if err != nil {
		return "refused: " + err.Error()
	}
	return answer.Content.(*sdk.TextContent).Text
}

func (b *upstreamServer) read(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, Text: "of " + b.name}}}, nil
}

// servePassThrough returns a server with a flat surface in front of upstreams.
func servePassThrough(t testing.TB, upstreams ...*upstreamServer) *testServer {
	t.Helper()
	return serve(t, withUpstreams(t, upstreams...))
}

// withUpstreams makes a flat surface pass upstreams through.
func withUpstreams(t testing.TB, upstreams ...*upstreamServer) func(*mcp.Options) {
	return func(o *mcp.Options) {
		o.Surface = mcp.SurfaceFlat
		for _, b := range upstreams {
			addPassthrough(t, o, b)
			if err := o.Catalog.Add(b.name, b.source); err != nil {
				t.Fatal(err)
			}
		}
		steps.Await(t.Context(), o.Catalog, nil)
	}
}

// notificationLog records the notifications to a client.
type notificationLog struct {
	mu   sync.Mutex
	list []string
	news chan struct{}
}

func (h *notificationLog) record(what string) {
	h.mu.Lock()
	h.list = append(h.list, what)
	h.mu.Unlock()
	select {
	case h.news <- struct{}{}:
	default:
	}
}

func (h *notificationLog) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.list)
}

func (h *notificationLog) count(what string) (n int) {
	for _, one := range h.all() {
		if strings.HasPrefix(one, what) {
			n++
		}
	}
	return n
}

func (h *notificationLog) await(t testing.TB, what string) {
	t.Helper()
	timeout := time.After(mcptest.Patience)
	for h.count(what) == 0 {
		select {
		case <-h.news:
		case <-timeout:
			t.Fatalf("the client was not notified of %q; notifications: %q", what, h.all())
		}
	}
}

// capableClient returns the options of a client that has all capabilities and answers with its name.
//
//nolint:staticcheck // clients still have roots, sample and log
func capableClient(name string) (*notificationLog, *sdk.ClientOptions) {
	h := &notificationLog{news: make(chan struct{}, 1)}
	return h, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{RootsV2: &sdk.RootCapabilities{}},
		ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			schema, err := json.Marshal(r.Params.RequestedSchema)
			h.record("elicit " + r.Params.Message + " " + string(schema))
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"a": name}}, err
		},
		CreateMessageHandler: func(context.Context, *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
			h.record("sample")
			return &sdk.CreateMessageResult{Role: "assistant", Model: "m", Content: &sdk.TextContent{Text: name}}, nil
		},
		LoggingMessageHandler: func(_ context.Context, r *sdk.LoggingMessageRequest) {
			h.record(fmt.Sprint("log ", r.Params.Level, " ", r.Params.Logger, " ", r.Params.Data))
		},
		ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) {
			h.record("updated " + r.Params.URI)
		},
		ToolListChangedHandler:     func(context.Context, *sdk.ToolListChangedRequest) { h.record("tools") },
		PromptListChangedHandler:   func(context.Context, *sdk.PromptListChangedRequest) { h.record("prompts") },
		ResourceListChangedHandler: func(context.Context, *sdk.ResourceListChangedRequest) { h.record("resources") },
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			h.record(fmt.Sprint("progress ", r.Params.ProgressToken, " ", r.Params.Progress, " ", r.Params.Total))
		},
	}
}

// connectHTTP connects a client over HTTP in a version of MCP.
func connectHTTP(t testing.TB, url, version string, o *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	return mcptest.Connect(t, &sdk.StreamableClientTransport{Endpoint: url}, o, version)
}

func codeOf(err error) int64 {
	var rpcErr *jsonrpc.Error
	if errors.As(err, &rpcErr) {
		return rpcErr.Code
	}
	return 0
}

// legacyStdio connects a client of MCP 2025-11-25 over stdio's transport.
func legacyStdio(t testing.TB, s *testServer, o *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	return mcptest.StdioOf(t, o, statefulVersion, func(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
		return s.ServeStdio(ctx, in, out, reader)
	})
}
