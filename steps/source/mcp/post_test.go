package mcp

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"reflect"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/steps"
)

// postRecorder keeps the calls of tools that go over HTTP.
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
		if gjson.GetBytes(text, "method").Str == methodCall {
			p.mu.Lock()
			p.calls = append(p.calls, sentCall{r.Header.Clone(), string(text)})
			p.mu.Unlock()
		}
	}
	return http.DefaultTransport.RoundTrip(r)
}

// TestPostIsWhatTheSDKSends: a call that is made past the SDK is the request that the SDK would send, but for its id.
func TestPostIsWhatTheSDKSends(t *testing.T) {
	t.Parallel()
	withMeta := sdk.Meta{"progressToken": 7, "mine": json.RawMessage(`{"a":1}`)}
	for name, c := range map[string]struct {
		options Options
		linked  bool
		meta    sdk.Meta
	}{
		"sessions":                {Options{Protocol: protocol.Stateful}, false, nil},
		"sessions, with _meta":    {Options{Protocol: protocol.Stateful}, false, withMeta},
		"stateless":               {Options{}, false, nil},
		"stateless, with _meta":   {Options{}, false, withMeta},
		"as a proxy":              {Options{AsProxy: true, Roots: true}, false, nil},
		"of a link":               {Options{AsProxy: true}, true, nil},
		"of a link, with _meta":   {Options{AsProxy: true}, true, sdk.Meta{sdk.MetaKeyClientInfo: json.RawMessage(`{"name":"ann","version":"2"}`)}},
		"with headers of its own": {Options{Headers: map[string]string{"X-Team": "a", "Accept": "unused"}}, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := goodServer(nil)
			handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
				&sdk.StreamableHTTPOptions{Stateless: c.options.Protocol == ""})
			sent := &postRecorder{}
			o := c.options
			o.Name, o.URL, o.HTTPClient = "shelf", listen(t, handler), &http.Client{Transport: sent}
			s := openSource(t, &o)
			await(t, s, steps.StateReady)
			var of connector = s
			if c.linked {
				of = openSession(t, s, &newClient("ann", protocol.Versions[0]).DownstreamClient)
			}
			n, f := of.acquire(t.Context())
			if f != nil {
				t.Fatal(f)
			}
			defer of.release(n)
			if n.poster == nil {
				t.Fatal("its calls are the SDK's to make")
			}
			const args = `{"name":"<a&b>", "x":12345678901234567890}`
			params := &sdk.CallToolParams{Name: "echo", Arguments: json.RawMessage(args), Meta: maps.Clone(c.meta)} // to which the SDK adds
			x := &pendingRequest{stub: noContent, cancel: func() {}}
			if made, err := n.post(x.withContext(t.Context()), x, params, []byte(args)); !made || err != nil || gjson.GetBytes(x.result, "content.0.text").Str == "" {
				t.Fatalf("%s, %v, %v %v", x.result, err, x.err, x.failure)
			}
			n.tap.forget(x)
			if _, err := n.client.CallTool(t.Context(), params); err != nil {
				t.Fatal(err)
			}
			ours, theirs := sent.calls[0], sent.calls[1]
			if !reflect.DeepEqual(ours.header, theirs.header) {
				t.Errorf("headers %v, the SDK's are %v", ours.header, theirs.header)
			}
			var got, want any
			if json.Unmarshal([]byte(gjson.Get(ours.body, "params").Raw), &got) != nil || json.Unmarshal([]byte(gjson.Get(theirs.body, "params").Raw), &want) != nil ||
				!reflect.DeepEqual(got, want) {
				t.Errorf("sent %s\nthe SDK %s", ours.body, theirs.body)
			}
		})
	}
}

// TestArgumentsInHeaders: a tool whose arguments go into headers too is called by the SDK, which knows how.
func TestArgumentsInHeaders(t *testing.T) {
	t.Parallel()
	server := sdk.NewServer(&sdk.Implementation{Name: "shelf", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "where", InputSchema: json.RawMessage(
		`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return text("there"), nil })
	sent := &postRecorder{}
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true})
	s := openSource(t, &Options{Name: "shelf", URL: listen(t, handler), HTTPClient: &http.Client{Transport: sent}})
	await(t, s, steps.StateReady)
	mustCall(t, s, "shelf.where", `{"region":"eu"}`)
	if got := sent.calls[0].header.Get("Mcp-Param-Region"); got != "eu" {
		t.Errorf("the header says %q", got)
	}
}
