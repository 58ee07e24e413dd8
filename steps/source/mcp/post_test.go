package mcp_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// postRecorder records the tool calls that are sent over HTTP.
type postRecorder struct {
	mu    sync.Mutex
	calls []sentCall
}

type sentCall struct {
	header http.Header
	body   string
}

// RoundTrip implements http.RoundTripper.
func (p *postRecorder) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(body)
		if err != nil {
			return nil, err
		}
		if gjson.GetBytes(text, "method").Str == "tools/call" {
			p.mu.Lock()
			p.calls = append(p.calls, sentCall{r.Header.Clone(), string(text)})
			p.mu.Unlock()
		}
	}
	return http.DefaultTransport.RoundTrip(r)
}

// TestPostEqualsSDK: a call that bypasses the SDK sends the same request as the SDK, except for its id. The SDK still makes the
// calls of tools whose arguments are also sent as headers.
func TestPostEqualsSDK(t *testing.T) {
	t.Parallel()
	const client = `{"_meta":{"progressToken":7,"mine":{"a":1},"io.modelcontextprotocol/clientInfo":{"name":"ann","version":"2"}}}`
	for name, c := range map[string]struct {
		options mcpsource.Options
		params  string // the params of a client with a session; "": there is no client
		parent  string // the trace
	}{
		"sessions":                 {mcpsource.Options{Protocol: protocol.Stateful}, "", ""},
		"sessions, with _meta":     {mcpsource.Options{Protocol: protocol.Stateful}, "", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		"stateless":                {mcpsource.Options{}, "", ""},
		"stateless, with _meta":    {mcpsource.Options{}, "", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		"as a proxy":               {mcpsource.Options{AsProxy: true, Roots: true}, "", ""},
		"in a session":             {mcpsource.Options{AsProxy: true}, "{}", ""},
		"in a session, with _meta": {mcpsource.Options{AsProxy: true}, client, ""},
		"with configured headers":  {mcpsource.Options{Headers: map[string]string{"X-Team": "a", "Accept": "unused"}}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := sdk.NewServer(&sdk.Implementation{Name: "shelf", Version: "1"}, nil)
			for tool, schema := range map[string]string{"plain": `{"type":"object"}`,
				"heads": `{"type":"object","properties":{"z":{"type":"string","x-mcp-header":"Z"}}}`} {
				server.AddTool(&sdk.Tool{Name: tool, InputSchema: json.RawMessage(schema)},
					func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
						return textResult("there"), nil
					})
			}
			sent := &postRecorder{}
			o := c.options
			o.Name, o.HTTPClient = "shelf", &http.Client{Transport: sent}
			o.URL = listen(t, httpServer(server, &sdk.StreamableHTTPOptions{Stateless: o.Protocol == ""}))
			s := openReady(t, &o)
			ctx := t.Context()
			if c.parent != "" {
				ctx = steps.WithTrace(ctx, c.parent, "s=1")
			}
			if c.params != "" {
				ctx = openSession(t, s, &newClient("ann", protocol.Versions[0]).DownstreamClient).CallContext(ctx, json.RawMessage(c.params))
			}
			for _, tool := range []string{"shelf.plain", "shelf.heads"} {
				if got, err := function(t, s, tool).Call(ctx, []byte(`{"name":"<a&b>", "x":12345678901234567890}`)); err != nil ||
					string(got) != `"there"` {
					t.Fatalf("%s: got %s, %v, want \"there\"", tool, got, err)
				}
			}
			ours, theirs := sent.calls[0], sent.calls[1]
			if gjson.Get(ours.body, "id").Int() < 1<<40 || gjson.Get(theirs.body, "id").Int() >= 1<<40 {
				t.Fatalf("both calls were made by the same code: %s, %s", ours.body, theirs.body)
			}
			if ours.header.Get("Mcp-Name") != "" {
				ours.header.Set("Mcp-Name", "heads")
			}
			if !reflect.DeepEqual(ours.header, theirs.header) {
				t.Errorf("got headers %v, want the SDK's %v", ours.header, theirs.header)
			}
			var got, want any
			plain := strings.Replace(gjson.Get(ours.body, "params").Raw, `"name":"plain"`, `"name":"heads"`, 1)
			if json.Unmarshal([]byte(plain), &got) != nil || json.Unmarshal([]byte(gjson.Get(theirs.body, "params").Raw), &want) != nil ||
				!reflect.DeepEqual(got, want) {
				t.Errorf("sent %s\nwant %s, as the SDK sent", ours.body, theirs.body)
			}
		})
	}
}

// TestArgumentsInHeaders: the SDK calls a tool whose arguments are also sent as headers.
func TestArgumentsInHeaders(t *testing.T) {
	t.Parallel()
	server := sdk.NewServer(&sdk.Implementation{Name: "shelf", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "where", InputSchema: json.RawMessage(
		`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return textResult("there"), nil
		})
	sent := &postRecorder{}
	s := openReady(t, &mcpsource.Options{Name: "shelf", URL: listen(t, httpServer(server, &sdk.StreamableHTTPOptions{Stateless: true})),
		HTTPClient: &http.Client{Transport: sent}})
	mustCall(t, s, "shelf.where", `{"region":"eu"}`)
	if got := sent.calls[0].header.Get("Mcp-Param-Region"); got != "eu" {
		t.Errorf("got header %q, want eu", got)
	}
}
