package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/internal/raw"
	"github.com/onecall-mcp/onecall/steps"
)

// TestPassUpstreamRequests: an upstream's request during a call reaches the client that made the call, and the answer reaches the
// upstream, both unchanged.
func TestPassUpstreamRequests(t *testing.T) {
	t.Parallel()
	s := servePassThrough(t, newUpstream(t, "a", false))
	url := s.http(t, reader)
	clients := map[string]func(o *sdk.ClientOptions) *sdk.ClientSession{
		"stdio": func(o *sdk.ClientOptions) *sdk.ClientSession { return legacyStdio(t, s, o) },
		"http":  func(o *sdk.ClientOptions) *sdk.ClientSession { return connectHTTP(t, url, "2025-11-25", o) },
	}
	var all sync.WaitGroup
	for name, open := range clients {
		h, o := capableClient(name)
		c := open(o)
		all.Go(func() {
			for i := range 5 {
				if text, _ := mcptest.Ask(t, c, "a_ask", fmt.Sprintf(`{"by":"%s%d"}`, name, i)); text != "accept "+name {
					t.Errorf("%s: asked: %s, want accept %s", name, text, name)
				}
				if text, _ := mcptest.Ask(t, c, "a_sample", `{}`); text != name {
					t.Errorf("%s: sampled: %s, want %s", name, text, name)
				}
				if text, _ := mcptest.Ask(t, c, "a_roots", `{}`); text != "0 roots" {
					t.Errorf("%s: roots: %s, want 0 roots", name, text)
				}
			}
			if text, _ := mcptest.Ask(t, c, "chain", `{"lite":true,"steps":[{"fn":"a_ask","args":{"by":"`+name+`"}}]}`); text != `"accept `+name+`"` {
				t.Errorf("%s: asked in a chain: %s, want \"accept %s\"", name, text, name)
			}
			for _, what := range h.all() {
				if strings.HasPrefix(what, "elicit") && (!strings.Contains(what, name) || !strings.Contains(what, `"title":"X"`)) {
					t.Errorf("%s received the request of another call, or a changed one: %s", name, what)
				}
			}
			if h.count("elicit") != 6 || h.count("sample") != 5 {
				t.Errorf("%s: want 6 questions and 5 samplings, got %q", name, h.all())
			}
		})
	}
	all.Wait()
	plain := legacyStdio(t, s, &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}})
	if text, _ := mcptest.Ask(t, plain, "a_ask", `{}`); !strings.HasPrefix(text, "refused: ") {
		t.Errorf("a client that cannot be asked: %s, want refused", text)
	}
}

func TestPassNotifications(t *testing.T) {
	t.Parallel()
	a, b := newUpstream(t, "a", false), newUpstream(t, "b", false)
	s := servePassThrough(t, a, b)
	url := s.http(t, reader)
	h, o := capableClient("ann")
	c := connectHTTP(t, url, "2025-11-25", o)
	silent, o2 := capableClient("bob")
	other := connectHTTP(t, url, "2025-11-25", o2)
	if text, _ := mcptest.Ask(t, other, "a_touch", `{"uri":"only://a"}`); text != "touched" {
		t.Errorf("touch: %s, want touched", text)
	}
	if err := c.SetLoggingLevel(t.Context(), &sdk.SetLoggingLevelParams{Level: "info"}); err != nil { //nolint:staticcheck // clients still do
		t.Fatal(err)
	}
	params := &sdk.CallToolParams{Name: "a_tell", Arguments: json.RawMessage("{}"), Meta: sdk.Meta{"progressToken": "tok"}}
	if _, err := c.CallTool(t.Context(), params); err != nil {
		t.Fatal(err)
	}
	h.await(t, "log warning a told 2")
	h.await(t, "progress tok 3 3")
	if n := h.count("log"); n != 3 {
		t.Errorf("%d log messages, want 3: %q", n, h.all())
	}
	if err := c.SetLoggingLevel(t.Context(), &sdk.SetLoggingLevelParams{Level: "error"}); err != nil { //nolint:staticcheck // clients still do
		t.Fatal(err)
	}
	if _, err := c.CallTool(t.Context(), params); err != nil || h.count("log") != 3 {
		t.Errorf("log messages below the level: %v: %q; want 3 as before", err, h.all())
	}
	for _, uri := range []string{"only://b", "b://1/data"} {
		if err := c.Subscribe(t.Context(), &sdk.SubscribeParams{URI: uri}); err != nil {
			t.Fatal(err)
		}
		if text, _ := mcptest.Ask(t, other, "b_touch", `{"uri":"`+uri+`"}`); text != "touched" {
			t.Errorf("touch: %s, want touched", text)
		}
		h.await(t, "updated "+uri)
		if err := c.Unsubscribe(t.Context(), &sdk.UnsubscribeParams{URI: uri}); err != nil {
			t.Error(err)
		}
	}
	b.server.AddPrompt(&sdk.Prompt{Name: "new"}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Description: "new", Messages: []*sdk.PromptMessage{}}, nil
	})
	h.await(t, "prompts")
	if got, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "new"}); err != nil || got.Description != "new" {
		t.Errorf("a new prompt: %+v, %v; want new", got, err)
	}
	a.server.AddTool(&sdk.Tool{Name: "new", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true},
		InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
	h.await(t, "tools")
	if n := silent.count("log") + silent.count("updated") + silent.count("progress"); n != 0 {
		t.Errorf("another client is notified of %q, want nothing", silent.all())
	}
}

// TestPassWithoutSessions: a client without sessions gets requests in results, and notifications in streams that it opens.
func TestPassWithoutSessions(t *testing.T) {
	t.Parallel()
	for _, stateless := range []bool{true, false} {
		t.Run(fmt.Sprint("upstream stateless ", stateless), func(t *testing.T) {
			t.Parallel()
			a, b := newUpstream(t, "a", stateless), newUpstream(t, "b", stateless)
			s := servePassThrough(t, a, b)
			url := s.http(t, reader)
			h, o := capableClient("ann")
			c := connectHTTP(t, url, "2026-07-28", o)
			if stateless {
				if text, _ := mcptest.Ask(t, c, "a_input", `{}`); text != "s1 ann" {
					t.Errorf("input: %s, want s1 ann", text)
				}
			} else if text, failed := mcptest.Ask(t, c, "a_ask", `{}`); failed || text != "accept ann" {
				t.Errorf("a question of an older upstream: %s, want accept ann", text)
			}
			if err := c.Subscribe(t.Context(), &sdk.SubscribeParams{URI: "only://b"}); err != nil {
				t.Fatal(err)
			}
			h2, o2 := capableClient("bob")
			other := connectHTTP(t, url, "2026-07-28", o2)
			if err := other.Subscribe(t.Context(), &sdk.SubscribeParams{URI: "more://b"}); err != nil {
				t.Fatal(err)
			}
			polltest.Until(t, "both clients hear of the change", func() bool {
				mcptest.Ask(t, c, "b_touch", `{"uri":"only://b"}`)
				mcptest.Ask(t, c, "b_touch", `{"uri":"more://b"}`)
				return h.count("updated") > 0 && h2.count("updated") > 0
			})
			b.server.AddPrompt(&sdk.Prompt{Name: "new"}, nil)
			b.server.RemoveTools("b_fail")
			h.await(t, "tools")
			h.await(t, "prompts")
			h.await(t, "updated only://b")
			if h.count("updated more://b")+h2.count("updated only://b") > 0 {
				t.Errorf("clients are notified of resources that they have not subscribed to: %q, %q", h.all(), h2.all())
			}
			if text, _ := mcptest.Ask(t, c, "a_tell", `{}`); text != "told" {
				t.Errorf("tell: %s, want told", text)
			}
		})
	}
}

// TestPassWithoutUpstream: a lost upstream does not affect the others, and ended sessions leave nothing behind.
func TestPassWithoutUpstream(t *testing.T) {
	t.Parallel()
	a, b := newUpstream(t, "a", false), newUpstream(t, "b", false)
	s := servePassThrough(t, a, b)
	url := s.http(t, reader)
	c := connectHTTP(t, url, "2025-11-25", nil)
	if _, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "only://b"}); err != nil {
		t.Fatal(err)
	}
	b.front.CloseClientConnections()
	b.front.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "down", http.StatusBadGateway) })
	list, err := c.ListPrompts(t.Context(), nil)
	if err != nil || len(list.Prompts) < 2 {
		t.Errorf("prompts without the lost upstream: %+v, %v; want at least 2", list, err)
	}
	if _, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "only://b"}); err == nil {
		t.Error("a resource of the lost upstream was read")
	}
	if got, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "only://a"}); err != nil || got.Contents[0].Text != "of a" {
		t.Errorf("the other upstream: %+v, %v; want of a", got, err)
	}
	if n := len(slices.Collect(a.server.Sessions())); n != 2 {
		t.Errorf("%d sessions while the client is connected, want 2", n)
	}
	c.Close()
	polltest.Until(t, "the session of the client that left ends", func() bool { return len(slices.Collect(a.server.Sessions())) == 1 })
}

// TestPassRequestToDisconnectedClient: a client leaves while an upstream waits for its answer.
func TestPassRequestToDisconnectedClient(t *testing.T) {
	t.Parallel()
	a := newUpstream(t, "a", false)
	s := servePassThrough(t, a)
	asked, closed := make(chan struct{}), make(chan struct{})
	_, o := capableClient("ann")
	o.ElicitationHandler = func(ctx context.Context, _ *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		close(asked)
		<-closed
		return nil, errors.New("gone")
	}
	c := connectHTTP(t, s.http(t, reader), "2025-11-25", o)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ctx, &sdk.CallToolParams{Name: "a_ask", Arguments: json.RawMessage("{}")})
		ended <- err
	}()
	<-asked
	cancel()
	if err := <-ended; err == nil {
		t.Error("the canceled call was answered")
	}
	close(closed)
	if text, _ := mcptest.Ask(t, c, "a_tell", `{}`); text != "told" {
		t.Errorf("the next call: %s, want told", text)
	}
}

// TestPassInOneSession: every tool calls a function in the client's own session with the upstream.
func TestPassInOneSession(t *testing.T) {
	t.Parallel()
	a, b := newUpstream(t, "a", false), newUpstream(t, "b", false)
	s := servePassThrough(t, a, b)
	url := s.http(t, reader)
	others := map[string]bool{}
	for range 2 {
		c := connectHTTP(t, url, "2025-11-25", nil)
		first, failed := mcptest.Ask(t, c, "chain", `{"lite":true,"steps":[{"fn":"a_session"}]}`)
		if second, _ := mcptest.Ask(t, c, "a_session", `{}`); failed || first != `"`+second+`"` || others[first] {
			t.Errorf("a chain used session %s, a tool %s; want one session of this client", first, second)
		}
		others[first] = true
	}
	if n := len(slices.Collect(b.server.Sessions())); n > 1 { // the source's own session is allowed
		t.Errorf("%d sessions with an upstream that was not called, want at most 1", n)
	}
}

// TestPassSlowUpstream: an upstream that starts slowly delays a client only for a moment, and is announced when it is ready.
func TestPassSlowUpstream(t *testing.T) {
	t.Parallel()
	a, b := newUpstream(t, "a", false), newSlowUpstream(t, "b")
	s := serve(t, func(o *mcp.Options) {
		o.Surface = mcp.SurfaceFlat
		for _, one := range []*upstreamServer{a, b.upstreamServer} {
			addPassthrough(t, o, one)
			if err := o.Catalog.Add(one.name, one.source); err != nil {
				t.Fatal(err)
			}
		}
	})
	h, o := capableClient("ann")
	started := time.Now()
	c := connectHTTP(t, s.http(t, reader), "2025-11-25", o)
	if offered := c.InitializeResult().Capabilities; offered.Resources == nil || !offered.Resources.Subscribe ||
		!offered.Resources.ListChanged {
		t.Errorf("capabilities %+v, want resources with subscribe and listChanged", offered.Resources)
	}
	if list, err := c.ListPrompts(t.Context(), nil); err != nil || len(list.Prompts) != 2 {
		t.Errorf("prompts before the upstream is ready: %+v, %v; want 2", list, err)
	}
	if took := time.Since(started); took > mcptest.Patience/2 {
		t.Errorf("the client was delayed by %v, want at most %v", took, mcptest.Patience/2)
	}
	close(b.open)
	h.await(t, "prompts")
	h.await(t, "resources")
	if list, err := c.ListPrompts(t.Context(), nil); err != nil || len(list.Prompts) != 4 {
		t.Errorf("prompts once the upstream is ready: %+v, %v; want 4", list, err)
	}
}

// TestPassResultsUnchanged: results of upstreams' tools are unchanged, even if nothing else of upstreams is passed through.
func TestPassResultsUnchanged(t *testing.T) {
	t.Parallel()
	b := newUpstream(t, "a", true)
	b.server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if params, ok := req.GetParams().(*sdk.CallToolParamsRaw); ok && params.Name == "a_exact" {
				return raw.Result("", "", json.RawMessage(`{"content":[{"type":"hologram","x":1.50}],"extra":{"b":2.50},"resultType":"complete"}`))
			}
			return next(ctx, method, req)
		}
	})
	s := serve(t, func(o *mcp.Options) {
		o.Surface = mcp.SurfaceDispatch
		if err := o.Catalog.Add(b.name, b.source); err != nil {
			t.Fatal(err)
		}
		steps.Await(t.Context(), o.Catalog, nil)
	})
	c, _ := newRawClient(t, s.http(t, reader), "dispatch", statelessVersion)
	got := c.call(t, "a_exact", `{}`)
	if !strings.Contains(got, `{"type":"hologram","x":1.50}`) || !strings.Contains(got, `"extra":{"b":2.50}`) {
		t.Errorf("the result was changed: %s", got)
	}
}
