package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/steps/mcpsource"
)

// patience is against hangs: nothing that is right comes near to it.
const patience = 30 * time.Second

// behind is an upstream that tests put behind a server: the SDK's server over HTTP.
type behind struct {
	name   string
	server *sdk.Server
	source *mcpsource.Source
	front  *httptest.Server
}

// Name, Capabilities and Open implement Upstream.
func (b *behind) Name() string                          { return b.name }
func (b *behind) Capabilities() *sdk.ServerCapabilities { return b.source.Capabilities() }
func (b *behind) Open(ctx context.Context, peer *Peer) (Link, error) {
	link, err := b.source.Link(ctx, (*mcpsource.Peer)(peer))
	if err != nil {
		return nil, err
	}
	return link, nil
}

// newBehind makes an upstream that has one of everything, all named for it, and some things that every upstream has.
func newBehind(t testing.TB, name string, stateless bool) *behind {
	t.Helper()
	b := &behind{name: name}
	b.server = sdk.NewServer(&sdk.Implementation{Name: name, Version: "1"}, &sdk.ServerOptions{
		SubscribeHandler:   func(context.Context, *sdk.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
		CompletionHandler: func(_ context.Context, r *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
			return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{name + ":" + r.Params.Ref.Name + r.Params.Ref.URI}}}, nil
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
		return say(elicited(r.Session.Elicit(ctx, &sdk.ElicitParams{Message: string(r.Params.Arguments),
			RequestedSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string","title":"X"}}}`)}))), nil
	})
	tool(name+"_sample", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return say(sampled(ctx, r.Session)), nil
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
		return say("touched"), b.server.ResourceUpdated(ctx, &sdk.ResourceUpdatedNotificationParams{URI: gjson.GetBytes(r.Params.Arguments, "uri").String()})
	})
	tool(name+"_exact", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Meta: sdk.Meta{"mine": 1}, Content: []sdk.Content{&sdk.ImageContent{Data: []byte("png"), MIMEType: "image/png"},
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
	b.front = httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return b.server }, &sdk.StreamableHTTPOptions{Stateless: stateless}))
	t.Cleanup(func() {
		b.front.CloseClientConnections()
		go b.front.Close()
	})
	source, err := mcpsource.New(&mcpsource.Options{Name: name, URL: b.front.URL})
	if err != nil {
		t.Fatal(err)
	}
	b.source = source
	return b
}

func elicited(answer *sdk.ElicitResult, err error) string {
	if err != nil {
		return "refused: " + err.Error()
	}
	return fmt.Sprint(answer.Action, " ", answer.Content["a"])
}

// sampled is what a client samples, and how many roots it has.
//
//nolint:staticcheck // servers still sample, and ask for roots
func sampled(ctx context.Context, ss *sdk.ServerSession) string {
	answer, err := ss.CreateMessage(ctx, &sdk.CreateMessageParams{MaxTokens: 5, Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: "hi"}}}})
	if err != nil {
		return "refused: " + err.Error()
	}
	roots, err := ss.ListRoots(ctx, nil)
	if err != nil {
		return "refused: " + err.Error()
	}
	return fmt.Sprint(answer.Content.(*sdk.TextContent).Text, " ", len(roots.Roots))
}

func (b *behind) read(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, Text: "of " + b.name}}}, nil
}

// inFront makes a flat server over upstreams.
func inFront(t testing.TB, upstreams ...*behind) *served {
	t.Helper()
	return serve(t, func(o *Options) {
		o.Surface = SurfaceFlat
		for _, b := range upstreams {
			o.Upstreams = append(o.Upstreams, b)
			if err := o.Catalog.Add(b.name, b.source); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// heard keeps what a client is told.
type heard struct {
	mu   sync.Mutex
	list []string
	news chan struct{}
}

func (h *heard) note(what string) {
	h.mu.Lock()
	h.list = append(h.list, what)
	h.mu.Unlock()
	select {
	case h.news <- struct{}{}:
	default:
	}
}

func (h *heard) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.list)
}

func (h *heard) count(what string) (n int) {
	for _, one := range h.all() {
		if strings.HasPrefix(one, what) {
			n++
		}
	}
	return n
}

func (h *heard) await(t testing.TB, what string) {
	t.Helper()
	late := time.After(patience)
	for h.count(what) == 0 {
		select {
		case <-h.news:
		case <-late:
			t.Fatalf("the client does not hear %q but %q", what, h.all())
		}
	}
}

// able are the options of a client that can do everything, and answers with its name.
//
//nolint:staticcheck // clients still have roots, sample and log
func able(name string) (*heard, *sdk.ClientOptions) {
	h := &heard{news: make(chan struct{}, 1)}
	return h, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{RootsV2: &sdk.RootCapabilities{}},
		ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			schema, err := json.Marshal(r.Params.RequestedSchema)
			h.note("elicit " + r.Params.Message + " " + string(schema))
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"a": name}}, err
		},
		CreateMessageHandler: func(context.Context, *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
			h.note("sample")
			return &sdk.CreateMessageResult{Role: "assistant", Model: "m", Content: &sdk.TextContent{Text: name}}, nil
		},
		LoggingMessageHandler: func(_ context.Context, r *sdk.LoggingMessageRequest) {
			h.note(fmt.Sprint("log ", r.Params.Level, " ", r.Params.Logger, " ", r.Params.Data))
		},
		ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) {
			h.note("updated " + r.Params.URI)
		},
		ToolListChangedHandler:     func(context.Context, *sdk.ToolListChangedRequest) { h.note("tools") },
		PromptListChangedHandler:   func(context.Context, *sdk.PromptListChangedRequest) { h.note("prompts") },
		ResourceListChangedHandler: func(context.Context, *sdk.ResourceListChangedRequest) { h.note("resources") },
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			h.note(fmt.Sprint("progress ", r.Params.ProgressToken, " ", r.Params.Progress, " ", r.Params.Total))
		},
	}
}

// over connects a client over HTTP in a version of MCP.
func over(t testing.TB, url, version string, o *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	return connect(t, &sdk.StreamableClientTransport{Endpoint: url}, o, version)
}

func codeOf(err error) int64 {
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		return wire.Code
	}
	return 0
}

func TestPassJoins(t *testing.T) {
	t.Parallel()
	a, b := newBehind(t, "a", false), newBehind(t, "b", false)
	s := inFront(t, a, b)
	url := s.http(t, reader)
	for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			_, o := able("ann")
			c := over(t, url, version, o)
			if offered := c.InitializeResult().Capabilities; offered.Resources == nil || !offered.Resources.Subscribe || offered.Prompts == nil || offered.Completions == nil || offered.Tools == nil {
				t.Fatalf("capabilities %+v", offered)
			}
			resources, err := c.ListResources(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var uris []string
			for _, r := range resources.Resources {
				uris = append(uris, r.URI)
				if len(r.Icons) > 0 {
					t.Error("icons are shown")
				}
			}
			if got := strings.Join(uris, " "); got != "more://a only://a same://thing more://b only://b" {
				t.Errorf("resources %s", got)
			}
			templates, err := c.ListResourceTemplates(t.Context(), nil)
			if err != nil || len(templates.ResourceTemplates) != 2 {
				t.Errorf("templates %+v, %v", templates, err)
			}
			for uri, want := range map[string]string{"only://a": "of a", "only://b": "of b", "same://thing": "of a", "b://7/data": "of b"} {
				got, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri})
				if err != nil || got.Contents[0].Text != want || got.Contents[0].URI != uri {
					t.Errorf("%s: %+v, %v", uri, got, err)
				}
			}
			want := int64(codeNotFound)
			if version >= statelessVersion {
				want = jsonrpc.CodeInvalidParams
			}
			if _, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "none://x"}); codeOf(err) != want {
				t.Errorf("unknown resource: %v", err)
			}
			prompts, err := c.ListPrompts(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var all []string
			for _, p := range prompts.Prompts {
				all = append(all, p.Name)
				got, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: p.Name})
				own := map[string]string{"only_a": "a:only_a", "same": "a:same", "only_b": "b:only_b", "b_same": "b:same"}[p.Name]
				if err != nil || got.Description != own {
					t.Errorf("prompt %s: %+v, %v", p.Name, got, err)
				}
			}
			if got := strings.Join(all, " "); got != "only_a same only_b b_same" {
				t.Errorf("prompts %s", got)
			}
			if _, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "none"}); codeOf(err) != jsonrpc.CodeInvalidParams {
				t.Errorf("unknown prompt: %v", err)
			}
			for _, one := range []struct {
				ref  *sdk.CompleteReference
				want string
			}{
				{&sdk.CompleteReference{Type: "ref/prompt", Name: "b_same"}, "b:same"},
				{&sdk.CompleteReference{Type: "ref/prompt", Name: "same"}, "a:same"},
				{&sdk.CompleteReference{Type: "ref/resource", URI: "b://{id}/data"}, "b:b://{id}/data"},
			} {
				got, err := c.Complete(t.Context(), &sdk.CompleteParams{Ref: one.ref, Argument: sdk.CompleteParamsArgument{Name: "x", Value: "y"}})
				if err != nil || len(got.Completion.Values) != 1 || got.Completion.Values[0] != one.want {
					t.Errorf("completion of %+v: %+v, %v", one.ref, got, err)
				}
			}
		})
	}
}

// What an upstream asks during a call reaches the client that has made it, raw, and its answer comes back.
func TestPassAsks(t *testing.T) {
	t.Parallel()
	s := inFront(t, newBehind(t, "a", false))
	url := s.http(t, reader)
	clients := map[string]func(o *sdk.ClientOptions) *sdk.ClientSession{
		"stdio": func(o *sdk.ClientOptions) *sdk.ClientSession { return legacyStdio(t, s, o) },
		"http":  func(o *sdk.ClientOptions) *sdk.ClientSession { return over(t, url, "2025-11-25", o) },
	}
	var all sync.WaitGroup
	for name, open := range clients {
		h, o := able(name)
		c := open(o)
		all.Go(func() {
			for i := range 5 {
				if text, _ := ask(t, c, "a_ask", fmt.Sprintf(`{"by":"%s%d"}`, name, i)); text != "accept "+name {
					t.Errorf("%s: asked: %s", name, text)
				}
				if text, _ := ask(t, c, "a_sample", `{}`); text != name+" 0" {
					t.Errorf("%s: sampled: %s", name, text)
				}
			}
			if text, _ := ask(t, c, "chain", `{"lite":true,"steps":[{"fn":"a_ask","args":{"by":"`+name+`"}}]}`); text != `"accept `+name+`"` {
				t.Errorf("%s: asked in a chain: %s", name, text)
			}
			for _, what := range h.all() {
				if strings.HasPrefix(what, "elicit") && (!strings.Contains(what, name) || !strings.Contains(what, `"title":"X"`)) {
					t.Errorf("%s is asked %s", name, what)
				}
			}
			if h.count("elicit") != 6 || h.count("sample") != 5 {
				t.Errorf("%s: %q", name, h.all())
			}
		})
	}
	all.Wait()
	plain := legacyStdio(t, s, &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}})
	if text, _ := ask(t, plain, "a_ask", `{}`); !strings.HasPrefix(text, "refused: ") {
		t.Errorf("a client that cannot: %s", text)
	}
}

// legacyStdio connects a client of MCP 2025-11-25 over stdio's transport.
func legacyStdio(t testing.TB, s *served, o *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.ServeStdio(ctx, fromClient, toClient, reader) }()
	session := connect(t, &sdk.IOTransport{Reader: fromServer, Writer: toServer}, o, "2025-11-25")
	t.Cleanup(func() {
		session.Close()
		cancel()
		<-ended
	})
	return session
}

func TestPassTells(t *testing.T) {
	t.Parallel()
	a, b := newBehind(t, "a", false), newBehind(t, "b", false)
	s := inFront(t, a, b)
	url := s.http(t, reader)
	h, o := able("ann")
	c := over(t, url, "2025-11-25", o)
	silent, o2 := able("bob")
	other := over(t, url, "2025-11-25", o2)
	if text, _ := ask(t, other, "a_touch", `{"uri":"only://a"}`); text != "touched" {
		t.Errorf("touch: %s", text)
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
		t.Errorf("%d log messages: %q", n, h.all())
	}
	if err := c.SetLoggingLevel(t.Context(), &sdk.SetLoggingLevelParams{Level: "error"}); err != nil { //nolint:staticcheck // clients still do
		t.Fatal(err)
	}
	if _, err := c.CallTool(t.Context(), params); err != nil || h.count("log") != 3 {
		t.Errorf("%v; below the level: %q", err, h.all())
	}
	for _, uri := range []string{"only://b", "b://1/data"} {
		if err := c.Subscribe(t.Context(), &sdk.SubscribeParams{URI: uri}); err != nil {
			t.Fatal(err)
		}
		if text, _ := ask(t, other, "b_touch", `{"uri":"`+uri+`"}`); text != "touched" {
			t.Errorf("touch: %s", text)
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
		t.Errorf("a new prompt: %+v, %v", got, err)
	}
	a.server.AddTool(&sdk.Tool{Name: "new", InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
	h.await(t, "tools")
	if n := silent.count("log") + silent.count("updated") + silent.count("progress"); n != 0 {
		t.Errorf("another client hears %q", silent.all())
	}
}

// A client without sessions is asked in results, and told in streams that it opens.
func TestPassWithoutSessions(t *testing.T) {
	t.Parallel()
	for _, stateless := range []bool{true, false} {
		t.Run(fmt.Sprint("upstream stateless ", stateless), func(t *testing.T) {
			t.Parallel()
			a, b := newBehind(t, "a", stateless), newBehind(t, "b", stateless)
			s := inFront(t, a, b)
			url := s.http(t, reader)
			h, o := able("ann")
			c := over(t, url, "2026-07-28", o)
			if stateless {
				if text, _ := ask(t, c, "a_input", `{}`); text != "s1 ann" {
					t.Errorf("input: %s", text)
				}
			} else if text, failed := ask(t, c, "a_ask", `{}`); failed || !strings.HasPrefix(text, "refused: ") {
				t.Errorf("an older upstream that asks: %s", text)
			}
			if err := c.Subscribe(t.Context(), &sdk.SubscribeParams{URI: "only://b"}); err != nil {
				t.Fatal(err)
			}
			h2, o2 := able("bob")
			other := over(t, url, "2026-07-28", o2)
			if err := other.Subscribe(t.Context(), &sdk.SubscribeParams{URI: "more://b"}); err != nil {
				t.Fatal(err)
			}
			for late := time.Now().Add(patience); h.count("updated")*h2.count("updated") == 0 && time.Now().Before(late); {
				ask(t, c, "b_touch", `{"uri":"only://b"}`)
				ask(t, c, "b_touch", `{"uri":"more://b"}`)
				time.Sleep(5 * time.Millisecond)
			}
			b.server.AddPrompt(&sdk.Prompt{Name: "new"}, nil)
			b.server.RemoveTools("b_fail")
			h.await(t, "tools")
			h.await(t, "prompts")
			h.await(t, "updated only://b")
			if h.count("updated more://b")+h2.count("updated only://b") > 0 {
				t.Errorf("they hear of what they have not subscribed to: %q, %q", h.all(), h2.all())
			}
			if text, _ := ask(t, c, "a_tell", `{}`); text != "told" {
				t.Errorf("tell: %s", text)
			}
		})
	}
}

// post makes one request of MCP 2026-07-28 by hand, and gives the answer's message.
func post(t *testing.T, url, method, params string) string {
	t.Helper()
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `,` + meta + `}}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	name := gjson.Get("{"+params+"}", "name").String() + gjson.Get("{"+params+"}", "uri").String()
	for key, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name} {
		r.Header.Set(key, value)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, data, found := strings.Cut(string(text), "data: ")
	if !found {
		data = string(text)
	}
	return strings.TrimSpace(data)
}

// Results come as upstreams write them, bytes and all.
func TestPassExact(t *testing.T) {
	t.Parallel()
	s := inFront(t, newBehind(t, "a", true))
	url := s.http(t, reader)
	got := post(t, url, "tools/call", `"name":"a_exact","arguments":{}`)
	for _, want := range []string{`"big":12345678901234567890,"x":1.50`, `"mine":1`, `"data":"cG5n"`, `"_meta":{"x":true}`, `"resultType":"complete"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	if strings.Count(got, "serverInfo") != 1 || !strings.Contains(got, `"name":"onecall"`) {
		t.Errorf("whose answer it is: %s", got)
	}
	got = post(t, url, "tools/call", `"name":"a_input","arguments":{}`)
	if gjson.Get(got, "result.resultType").Str != "input_required" || gjson.Get(got, "result.inputRequests.q.params.message").Str != "which?" {
		t.Errorf("input requests: %s", got)
	}
	got = post(t, url, "tools/call", `"name":"a_input","arguments":{},"requestState":"s2","inputResponses":{"q":{"action":"accept","content":{"a":"b"}}}`)
	if gjson.Get(got, "result.content.0.text").Str != "s2 b" {
		t.Errorf("input responses: %s", got)
	}
	got = post(t, url, "tools/call", `"name":"a_fail","arguments":{}`)
	if gjson.Get(got, "error.code").Int() != -32042 || gjson.Get(got, "error.data").Raw != `{"elicitations":[]}` {
		t.Errorf("an error: %s", got)
	}
	got = post(t, url, "resources/read", `"uri":"only://a"`)
	if gjson.Get(got, "result.contents.0.text").Str != "of a" || gjson.Get(got, "result.cacheScope").Str != "private" {
		t.Errorf("resource: %s", got)
	}
}

// A caller that may use no function of an upstream sees nothing else of it.
func TestPassHides(t *testing.T) {
	t.Parallel()
	w, a := newBehind(t, "writer", false), newBehind(t, "a", false)
	s := inFront(t, w, a)
	mine := over(t, s.http(t, reader), "2025-11-25", nil)
	resources, err := mine.ListResources(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resources.Resources {
		if strings.Contains(r.URI, "writer") {
			t.Errorf("it is shown %s", r.URI)
		}
	}
	for _, uri := range []string{"only://writer", "writer://1/data"} {
		if _, err := mine.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("it reads %s", uri)
		}
	}
	if got, err := mine.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "same://thing"}); err != nil || got.Contents[0].Text != "of a" {
		t.Errorf("what both have: %+v, %v", got, err)
	}
	if _, err := mine.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "only_writer"}); err == nil {
		t.Error("it gets a prompt")
	}
	if n := len(slices.Collect(w.server.Sessions())); n > 1 { // the source's own
		t.Errorf("%d sessions with what is hidden", n)
	}
	more := over(t, s.http(t, writer), "2025-11-25", nil)
	if _, err := more.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "only://writer"}); err != nil {
		t.Errorf("who may: %v", err)
	}
}

func TestPassPages(t *testing.T) {
	t.Parallel()
	a := newBehind(t, "a", false)
	for i := range listPage + 5 {
		a.server.AddResource(&sdk.Resource{Name: "x", URI: fmt.Sprintf("x://%05d", i)}, a.read)
	}
	s := inFront(t, a)
	c := over(t, s.http(t, reader), "2025-11-25", nil)
	seen := map[string]bool{}
	pages := 0
	for cursor := ""; pages == 0 || cursor != ""; pages++ {
		page, err := c.ListResources(t.Context(), &sdk.ListResourcesParams{Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Resources {
			if seen[r.URI] {
				t.Errorf("%s twice", r.URI)
			}
			seen[r.URI] = true
		}
		cursor = page.NextCursor
	}
	if len(seen) != listPage+8 || pages != 2 {
		t.Errorf("%d resources on %d pages", len(seen), pages)
	}
	for _, cursor := range []string{"x", "!", cursorOf(3, "prompts/list"), cursorOf(-1, "resources/list")} {
		if _, err := c.ListResources(t.Context(), &sdk.ListResourcesParams{Cursor: cursor}); codeOf(err) != jsonrpc.CodeInvalidParams {
			t.Errorf("%s: %v", cursor, err)
		}
	}
}

// An upstream that is gone takes nothing of the others with it; and sessions leave nothing behind.
func TestPassWithoutUpstream(t *testing.T) {
	t.Parallel()
	a, b := newBehind(t, "a", false), newBehind(t, "b", false)
	s := inFront(t, a, b)
	url := s.http(t, reader)
	c := over(t, url, "2025-11-25", nil)
	if _, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "only://b"}); err != nil {
		t.Fatal(err)
	}
	b.front.CloseClientConnections()
	b.front.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "down", http.StatusBadGateway) })
	list, err := c.ListPrompts(t.Context(), nil)
	if err != nil || len(list.Prompts) < 2 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "only://b"}); err == nil {
		t.Error("what is gone was read")
	}
	if got, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "only://a"}); err != nil || got.Contents[0].Text != "of a" {
		t.Errorf("the other: %+v, %v", got, err)
	}
	if n := len(slices.Collect(a.server.Sessions())); n != 2 {
		t.Errorf("%d sessions while the client is there", n)
	}
	c.Close()
	late := time.Now().Add(patience)
	for len(slices.Collect(a.server.Sessions())) > 1 && time.Now().Before(late) {
		time.Sleep(5 * time.Millisecond)
	}
	if n := len(slices.Collect(a.server.Sessions())); n != 1 {
		t.Errorf("%d sessions are left", n)
	}
}

// A client that is asked, and vanishes.
func TestPassAsksWhoIsGone(t *testing.T) {
	t.Parallel()
	a := newBehind(t, "a", false)
	s := inFront(t, a)
	asked, gone := make(chan struct{}), make(chan struct{})
	_, o := able("ann")
	o.ElicitationHandler = func(ctx context.Context, _ *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		close(asked)
		<-gone
		return nil, errors.New("gone")
	}
	c := over(t, s.http(t, reader), "2025-11-25", o)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ctx, &sdk.CallToolParams{Name: "a_ask", Arguments: json.RawMessage("{}")})
		ended <- err
	}()
	<-asked
	cancel()
	if err := <-ended; err == nil {
		t.Error("the call was answered")
	}
	close(gone)
	if text, _ := ask(t, c, "a_tell", `{}`); text != "told" {
		t.Errorf("afterwards: %s", text)
	}
}

func TestFits(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		template, uri string
		want          bool
	}{
		{"a://{id}/x", "a://7/x", true}, {"a://{id}/x", "a://7/y", false}, {"a://{+path}", "a://b/c/d", true}, {"a://{id}", "a://b/c", false},
		{"a://{", "a://b", false}, {"a://x{?q,r}", "a://x?q=1&r=2", true}, {strings.Repeat("{a}", maxTemplate), "a", false},
	} {
		if got := fits(one.template, one.uri); got != one.want {
			t.Errorf("%.40s, %s: %v", one.template, one.uri, got)
		}
	}
}

func FuzzWith(f *testing.F) {
	f.Add(`{"a":1,"_meta":{"x":[1.50]}}`, "_meta", `{"y":2}`)
	f.Add(`{}`, "a", `null`)
	f.Fuzz(func(t *testing.T, object, key, value string) {
		if !gjson.Valid(object) || !gjson.Parse(object).IsObject() || !gjson.Valid(value) || strings.ContainsAny(key, "\"\\") || !json.Valid([]byte(`"`+key+`"`)) {
			return
		}
		if got := with(json.RawMessage(object), key, json.RawMessage(value)); !json.Valid(got) && json.Valid([]byte(object)) {
			t.Errorf("%s", got)
		}
		if got := with(json.RawMessage(object), key, nil); gjson.ParseBytes(got).Map()[key].Exists() {
			t.Errorf("%s still has %q", got, key)
		}
	})
}
