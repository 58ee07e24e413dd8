package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/syncbuf"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/proxy"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// The upstreams of the matrix. Only administrators may use tools of closedUpstream, which comes first.
var closedUpstream, openUpstream = sourceWord(20), "opened"

// TestMatrixOfUpstreams: the features of an upstream other than tools are only for callers that may use one of its tools. Other callers
// learn nothing of them: not from resources, prompts and completions, nor from items that another upstream has, too, nor from the
// capabilities that a client reads.
func TestMatrixOfUpstreams(t *testing.T) {
	t.Parallel()
	for name, a := range rightsOfMatrix() {
		if a.Tier == steps.TierAdmin {
			continue
		}
		for _, surface := range []string{"chain", "flat", "hybrid"} {
			for _, version := range []string{statefulVersion, statelessVersion} {
				for _, down := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%s/%s/down %v", name, surface, version, down), func(t *testing.T) {
						t.Parallel()
						world := func(whole bool) *worldServer {
							return serveWorld(t, a, func(spec *steps.Spec) bool { return mayUse(a, spec) }, func(o *mcp.Options) {
								if whole {
									addClosedUpstream(t, o, down)
								}
								if down {
									addUpstream(t, o, newToolUpstream(t, openUpstream)) // it hides no capability of the other upstream
								} else {
									addUpstream(t, o, newUpstream(t, openUpstream, false))
								}
								steps.Await(t.Context(), o.Catalog, nil)
							})
						}
						m := &matrix{caller: a, words: []string{closedUpstream}, token: "oc1_x"}
						tryUpstreams(t, m, world(true), world(false), surface, version)
					})
				}
			}
		}
	}
}

// addUpstream adds an MCP server as an upstream and as a source.
func addUpstream(t testing.TB, o *mcp.Options, b *upstreamServer) {
	t.Helper()
	addPassthrough(t, o, b)
	if err := o.Catalog.Add(b.name, b.source); err != nil {
		t.Fatal(err)
	}
}

// newToolUpstream returns an MCP server that has only one tool.
func newToolUpstream(t testing.TB, name string) *upstreamServer {
	t.Helper()
	b := &upstreamServer{name: name, server: sdk.NewServer(&sdk.Implementation{Name: name, Version: "1"}, nil)}
	b.server.AddTool(&sdk.Tool{Name: name + "_exact", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true},
		InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "exact"}}}, nil
		})
	b.start(t, sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return b.server }, nil))
	return b
}

// addClosedUpstream adds the upstream that callers may not use. If down is set, it cannot be reached, and its functions are unknown.
func addClosedUpstream(t testing.TB, o *mcp.Options, down bool) {
	t.Helper()
	if !down {
		addUpstream(t, o, newUpstream(t, closedUpstream, false))
		return
	}
	addPassthrough(t, o, unreachableUpstream{})
	if err := o.Catalog.Add(closedUpstream, &brokenSource{whyBroken(closedUpstream)}); err != nil {
		t.Fatal(err)
	}
}

// unreachableUpstream is a server that was never reached.
type unreachableUpstream struct{ proxy.Upstream }

func (unreachableUpstream) Name() string                          { return closedUpstream }
func (unreachableUpstream) Capabilities() *sdk.ServerCapabilities { return nil }
func (unreachableUpstream) Within(ctx context.Context, _ json.RawMessage, _ func(context.Context) (*mcpsource.UpstreamSession,
	error)) context.Context {
	return ctx
}
func (unreachableUpstream) OpenSession(context.Context, *mcpsource.DownstreamClient) (*mcpsource.UpstreamSession, error) {
	return nil, io.ErrUnexpectedEOF
}

func tryUpstreams(t *testing.T, m *matrix, whole, lacking *worldServer, surface, version string) {
	var hello, helloLacking string
	m.whole, hello = newRawClient(t, whole.url, surface, version)
	m.lacking, helloLacking = newRawClient(t, lacking.url, surface, version)
	m.try(t, "the greeting", func(c *rawClient) string {
		if c == m.whole {
			return hello
		}
		return helloLacking
	})
	some := newMarked(300, closedUpstream, true, kindOfFunction{effect: steps.Read}) // the upstream has no such tool
	n := 0
	for method, list := range protocolPaths() {
		for _, params := range list {
			n++
			p := matrixPath{method, strings.ReplaceAll(params, "HIDDENUPSTREAM", closedUpstream)}.filled(some, absentFunction, "oc1_x", n)
			m.try(t, p.tool+" "+p.text, func(c *rawClient) string { return c.message(t, p.tool, p.text) })
		}
	}
	for _, tool := range []string{"_session", "_exact", "_fail", "_tell", "_input", "_ask"} {
		m.tool(t, matrixPath{closedUpstream + tool, `{}`})
		m.tool(t, matrixPath{"chain", `{"steps":[{"fn":"` + closedUpstream + "." + closedUpstream + tool + `"}]}`})
	}
	m.tool(t, matrixPath{openUpstream + "_exact", `{"no":"such"}`})
	for _, text := range []string{`{}`, `{"query":"session exact"}`, `{"names":["session","tell"]}`} {
		m.tool(t, matrixPath{"search", text})
	}
	m.tool(t, matrixPath{"info", `{}`})
}

// knownCallers maps tokens to callers.
type knownCallers map[string]steps.Caller

// Verify implements Callers.
func (k knownCallers) Verify(_ context.Context, token string) (*steps.Caller, error) {
	caller, ok := k[token]
	if !ok {
		return nil, fault.New(fault.Denied, "nobody has this token")
	}
	return &caller, nil
}

// recordingTransport sends a token with each request, and records all bytes of the responses.
type recordingTransport struct {
	token string
	text  syncbuf.Buffer
}

func (r *recordingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+r.token)
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	_ = response.Header.Write(&r.text) // a buffer takes it
	response.Body = &recordingBody{response.Body, &r.text}
	return response, nil
}

type recordingBody struct {
	io.ReadCloser
	to *syncbuf.Buffer
}

func (b *recordingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	_, _ = b.to.Write(p[:n])
	return n, err
}

// TestMatrixOfNotifications: a client is notified of changes of what it may use, and of no others.
func TestMatrixOfNotifications(t *testing.T) {
	t.Parallel()
	for _, version := range []string{statefulVersion, statelessVersion} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			closed, opened := newUpstream(t, closedUpstream, false), newUpstream(t, openUpstream, false)
			w := newWorld(t, allFunctions, unwrapped, func(o *mcp.Options) {
				addUpstream(t, o, closed)
				addUpstream(t, o, opened)
				steps.Await(t.Context(), o.Catalog, nil)
			})
			reading := matrixCaller("reading", steps.TierRead, "")
			url := w.testServer.serveAs(t, &transport.Access{Callers: knownCallers{"r": reading, "a": matrixCaller("admin", steps.TierAdmin, "")}})
			notifications, bytesNotified := connectListener(t, url, "r", version)
			adminNotified, _ := connectListener(t, url, "a", version)
			// What only the administrator may use changes: only the administrator is notified.
			closed.server.AddTool(&sdk.Tool{Name: "late", InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
			adminNotified.await(t, "tools")
			closed.server.AddPrompt(&sdk.Prompt{Name: "late"}, nil)
			adminNotified.await(t, "prompts")
			closed.server.AddResource(&sdk.Resource{Name: "late", URI: "late://" + closedUpstream}, closed.read)
			adminNotified.await(t, "resources")
			before := adminNotified.count("tools")
			if err := w.catalog.Add(sourceWord(30), markedSource{newMarked(310, sourceWord(30), false,
				kindOfFunction{steps.Read, steps.TierAdmin})}); err != nil {
				t.Fatal(err)
			}
			adminNotified.awaitMore(t, "tools", before)
			// A tool for administrators is added to a server whose other tools all callers may use: only the administrator is notified.
			before = adminNotified.count("tools")
			opened.server.AddTool(&sdk.Tool{Name: "secret", InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
			adminNotified.awaitMore(t, "tools", before)
			if all := notifications.all(); len(all) > 0 {
				t.Errorf("a reader is notified of changes of what it may not use: %q", all)
			}
			// What all callers may use changes: all clients are notified.
			opened.server.AddTool(&sdk.Tool{Name: "new", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true},
				InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
			notifications.await(t, "tools")
			opened.server.AddPrompt(&sdk.Prompt{Name: "new"}, nil)
			notifications.await(t, "prompts")
			opened.server.AddResource(&sdk.Resource{Name: "new", URI: "new://x"}, opened.read)
			notifications.await(t, "resources")
			// onecall's own list and that of the client's session may show the new tool at different moments, and be notified both.
			if n := notifications.count("tools"); n > 2 || notifications.count("prompts") != 1 || notifications.count("resources") != 1 {
				t.Errorf("a reader is notified %q, want one of each kind, or two of tools", notifications.all())
			}
			text := strings.ToLower(bytesNotified.text.String())
			for _, word := range append(hiddenWords(reading, w.all), closedUpstream, sourceWord(30), markWord(310*marksWidth)) {
				if strings.Contains(text, word) {
					t.Errorf("a reader receives the hidden word %s:\n%s", word, text)
				}
			}
			if !strings.Contains(text, "list_changed") {
				t.Errorf("no notification was recorded: %s", text)
			}
		})
	}
}

// awaitMore waits until a client was notified more than before times.
func (h *notificationLog) awaitMore(t testing.TB, what string, before int) {
	t.Helper()
	timeout := time.After(mcptest.Patience)
	for h.count(what) <= before {
		select {
		case <-h.news:
		case <-timeout:
			t.Fatalf("the client received %q %d times, want more", what, before)
		}
	}
}

// connectListener connects a client of the flat surface that is notified of all changes, and lists everything.
func connectListener(t *testing.T, url, token, version string) (*notificationLog, *recordingTransport) {
	t.Helper()
	h, o := capableClient("listener")
	recorded := &recordingTransport{token: token}
	c := mcptest.Connect(t, &sdk.StreamableClientTransport{Endpoint: url + "?surface=flat", HTTPClient: &http.Client{Transport: recorded}}, o,
		version)
	if _, err := c.ListTools(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ListPrompts(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ListResources(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return h, recorded
}
