package mcpsource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// fullServer is a server of the SDK that has all that MCP has beside tools.
func fullServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "full", Version: "1"}, &sdk.ServerOptions{
		SubscribeHandler:   func(context.Context, *sdk.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
		CompletionHandler: func(_ context.Context, r *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
			return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{r.Params.Argument.Value + "lin"}}}, nil
		},
	})
	add := func(name string, h sdk.ToolHandler) {
		s.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`), Meta: sdk.Meta{"x": 1}}, h)
	}
	add("pid", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text(fmt.Sprint(os.Getpid())), nil
	})
	add("die", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { os.Exit(7); return nil, nil })
	add("meta", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		meta, err := json.Marshal(r.Params.GetMeta())
		return text(string(meta)), err
	})
	add("fail", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return nil, &jsonrpc.Error{Code: -32042, Message: "first go there", Data: json.RawMessage(`{"elicitations":[]}`)}
	})
	add("ask", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text(elicited(r.Session.Elicit(ctx, &sdk.ElicitParams{Message: gjson.GetBytes(r.Params.Arguments, "q").String(),
			RequestedSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`)}))), nil
	})
	add("log", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for i := range int(gjson.GetBytes(r.Params.Arguments, "n").Int()) {
			//nolint:staticcheck // servers still log
			if err := r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "warning", Data: json.RawMessage(fmt.Sprintf(`{"i":%d,"big":12345678901234567890}`, i))}); err != nil {
				return nil, err
			}
		}
		return text("logged"), nil
	})
	add("touch", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text("touched"), s.ResourceUpdated(ctx, &sdk.ResourceUpdatedNotificationParams{URI: gjson.GetBytes(r.Params.Arguments, "uri").String()})
	})
	add("more", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		s.AddPrompt(&sdk.Prompt{Name: fmt.Sprint("p", time.Now().UnixNano())}, nil)
		return text("more"), nil
	})
	add("input", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if answer, ok := r.Params.InputResponses["q"].(*sdk.ElicitResult); ok {
			return text(fmt.Sprint(r.Params.RequestState, " ", answer.Content["a"])), nil
		}
		return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": &sdk.ElicitParams{Message: "which?"}}, RequestState: "s1"}, nil
	})
	s.AddResource(&sdk.Resource{Name: "r", URI: "a://r"}, func(ctx context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		if token := r.Params.GetProgressToken(); token != nil {
			if err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: 1, Total: 2}); err != nil {
				return nil, err
			}
		}
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "a://r", Text: "hi", Meta: sdk.Meta{"n": json.RawMessage("12345678901234567890")}}}}, nil
	})
	s.AddPrompt(&sdk.Prompt{Name: "p"}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: "do"}}}}, nil
	})
	return s
}

func elicited(answer *sdk.ElicitResult, err error) string {
	if err != nil {
		return "refused: " + err.Error()
	}
	return fmt.Sprint(answer.Action, " ", answer.Content["a"])
}

// client is a peer that keeps what it is told.
type client struct {
	Peer
	mu   sync.Mutex
	told []string
	news chan struct{}
}

// newClient is a client that can be asked: it answers with its own name.
func newClient(name, protocol string) *client {
	c := &client{news: make(chan struct{}, 1)}
	c.Peer = Peer{
		Capabilities: &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{}}, Protocol: protocol,
		Info: &sdk.Implementation{Name: name, Version: "1"},
		Ask: func(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
			c.note(method + " " + gjson.GetBytes(params, "message").String())
			return json.RawMessage(`{"action":"accept","content":{"a":"` + name + `"}}`), nil
		},
		Notify: func(_ context.Context, method string, params json.RawMessage) { c.note(method + " " + string(params)) },
	}
	return c
}

func (c *client) note(what string) {
	c.mu.Lock()
	c.told = append(c.told, what)
	c.mu.Unlock()
	signal(c.news)
}

func (c *client) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.told)
}

// hears waits until the client is told something that begins so.
func (c *client) hears(t testing.TB, prefix string) string {
	t.Helper()
	late := time.After(patience)
	for {
		for _, what := range c.all() {
			if strings.HasPrefix(what, prefix) {
				return what
			}
		}
		select {
		case <-c.news:
		case <-late:
			t.Fatalf("it is not told %q but %q", prefix, c.all())
		}
	}
}

// linkTo opens a link that is closed with the test.
func linkTo(t testing.TB, s *Source, p *Peer) *Link {
	t.Helper()
	l, err := s.Link(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// calls calls a function in a link, and gives its result as the server wrote it.
func calls(t testing.TB, l *Link, name, args, params string) (string, error) {
	t.Helper()
	var raw string
	ctx := steps.WithAttendant(t.Context(), &steps.Attendant{Verbatim: func(result []byte) { raw = string(result) }})
	_, err := function(t, l.source, name).Call(l.Call(ctx, json.RawMessage(params)), []byte(args))
	return raw, err
}

// says is the text of the result of a call that has to succeed.
func says(t testing.TB, l *Link, name, args string) string {
	t.Helper()
	raw, err := calls(t, l, name, args, "")
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return gjson.Get(raw, "content.0.text").String()
}

// eachTransport runs a test on a source with the full server over stdio, and over HTTP.
func eachTransport(t *testing.T, test func(t *testing.T, s *Source)) {
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		s := open(t, child(t, "full"))
		await(t, s, steps.StateReady)
		test(t, s)
	})
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		s := open(t, &Options{Name: "shelf", URL: listen(t, httpServer(fullServer(), nil))})
		await(t, s, steps.StateReady)
		test(t, s)
	})
}

func TestLink(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, s *Source) {
		if c := s.Capabilities(); c == nil || c.Resources == nil || !c.Resources.Subscribe || c.Prompts == nil || c.Completions == nil {
			t.Fatalf("capabilities %+v", c)
		}
		c := newClient("ann", "2025-11-25")
		l := linkTo(t, s, &c.Peer)
		do := func(method, params string) string {
			t.Helper()
			result, err := l.Do(t.Context(), method, json.RawMessage(params))
			if err != nil {
				t.Fatalf("%s: %v", method, err)
			}
			return string(result)
		}
		if got := do("resources/read", `{"uri":"a://r","_meta":{"progressToken":"mine","x":1}}`); !strings.Contains(got, `"n":12345678901234567890`) {
			t.Errorf("read %s", got)
		}
		if got := c.hears(t, "notifications/progress"); got != `notifications/progress {"progressToken":"mine","progress":1,"total":2}` {
			t.Errorf("progress %s", got)
		}
		if got := do("prompts/get", `{"name":"p"}`); gjson.Get(got, "messages.0.content.text").Str != "do" {
			t.Errorf("prompt %s", got)
		}
		if got := do("completion/complete", `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"Ber"}}`); gjson.Get(got, "completion.values.0").Str != "Berlin" {
			t.Errorf("completion %s", got)
		}
		do("ping", "")
		if got := do("resources/list", ""); gjson.Get(got, "resources.#").Int() != 1 {
			t.Errorf("list %s", got)
		}
		_, err := l.Do(t.Context(), "resources/read", json.RawMessage(`{"uri":"a://none"}`))
		var wire *jsonrpc.Error
		if !errors.As(err, &wire) || wire.Code == 0 || !strings.Contains(string(wire.Data), "a://none") {
			t.Errorf("unknown resource: %v", err)
		}
		if got := says(t, l, "shelf.ask", `{"q":"who"}`); got != "accept ann" {
			t.Errorf("asked %s", got)
		}
		do("logging/setLevel", `{"level":"info"}`)
		says(t, l, "shelf.log", `{"n":2}`)
		if got := c.hears(t, "notifications/message"); !strings.Contains(got, `"big":12345678901234567890`) {
			t.Errorf("log %s", got)
		}
		do("resources/subscribe", `{"uri":"a://r"}`)
		says(t, l, "shelf.touch", `{"uri":"a://r"}`)
		c.hears(t, "notifications/resources/updated")
		says(t, l, "shelf.more", `{}`)
		c.hears(t, "notifications/prompts/list_changed")
		if _, err := calls(t, l, "shelf.fail", `{}`, ""); !errors.As(err.(*fault.Error).Err, &wire) || wire.Code != -32042 || string(wire.Data) != `{"elicitations":[]}` { //nolint:errorlint // looked into by hand
			t.Errorf("error %v", err)
		}
		raw, err := calls(t, l, "shelf.meta", `{}`, `{"_meta":{"progressToken":7,"mine":[1.50],"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`)
		if got := gjson.Get(raw, "content.0.text").Str; err != nil || got != `{"mine":[1.5]}` {
			t.Errorf("_meta %s, %v", got, err)
		}
		for _, method := range []string{"", "initialize", "tools/call", "notifications/initialized", "server/discover"} {
			if _, err := l.Do(t.Context(), method, nil); fault.CodeOf(err) != fault.BadRequest {
				t.Errorf("%s: %v", method, err)
			}
		}
		if _, err := l.Do(t.Context(), "resources/read", json.RawMessage(`[1]`)); fault.CodeOf(err) != fault.BadRequest {
			t.Errorf("params: %v", err)
		}
	})
}

// Nothing of one client reaches another, while both call at once.
func TestLinksApart(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, s *Source) {
		var all sync.WaitGroup
		clients := map[string]*client{}
		for _, name := range []string{"ann", "bob", "cid"} {
			c := newClient(name, "2025-11-25")
			clients[name] = c
			l := linkTo(t, s, &c.Peer)
			if _, err := l.Do(t.Context(), "logging/setLevel", json.RawMessage(`{"level":"info"}`)); err != nil {
				t.Fatal(err)
			}
			if name == "cid" { // who does nothing must hear nothing
				continue
			}
			all.Go(func() {
				for i := range 10 {
					if got := says(t, l, "shelf.ask", fmt.Sprintf(`{"q":"%s%d"}`, name, i)); got != "accept "+name {
						t.Errorf("%s is told %s", name, got)
					}
					says(t, l, "shelf.log", `{"n":3}`)
				}
			})
		}
		all.Wait()
		if told := clients["cid"].all(); len(told) > 0 {
			t.Errorf("cid is told %q", told)
		}
		for _, name := range []string{"ann", "bob"} {
			asked, logged := 0, 0
			for _, what := range clients[name].all() {
				switch {
				case strings.HasPrefix(what, "elicitation/create "+name):
					asked++
				case strings.HasPrefix(what, "notifications/message"):
					logged++
				default:
					t.Errorf("%s is told %s", name, what)
				}
			}
			if asked != 10 || logged != 30 {
				t.Errorf("%s was asked %d times, and told %d log messages", name, asked, logged)
			}
		}
	})
}

// What a server asks is refused where the client cannot do it, and where it cannot be asked.
func TestLinkRefusesAsks(t *testing.T) {
	t.Parallel()
	s := open(t, child(t, "full"))
	await(t, s, steps.StateReady)
	deaf := newClient("ann", "2025-11-25")
	deaf.Ask = nil
	if got := says(t, linkTo(t, s, &deaf.Peer), "shelf.ask", `{}`); !strings.HasPrefix(got, "refused: ") || !strings.Contains(got, "cannot be asked") {
		t.Errorf("without session: %s", got)
	}
	raw := open(t, child(t, "asks"))
	await(t, raw, steps.StateReady)
	simple := newClient("bob", "2025-11-25")
	if got := says(t, linkTo(t, raw, &simple.Peer), "shelf.a", `{"method":"sampling/createMessage"}`); !strings.Contains(got, "has not declared") {
		t.Errorf("sampling: %s", got)
	}
	if got := says(t, linkTo(t, raw, &simple.Peer), "shelf.a", `{"method":"elicitation/create"}`); !strings.Contains(got, `"a":"bob"`) {
		t.Errorf("elicitation: %s", got)
	}
	for name, answer := range map[string]func() (json.RawMessage, error){
		"garbage": func() (json.RawMessage, error) { return json.RawMessage(`{"a`), nil },
		"own":     func() (json.RawMessage, error) { return nil, &jsonrpc.Error{Code: -1, Message: "garbage no"} },
		"error":   func() (json.RawMessage, error) { return nil, errors.New("garbage secret") },
	} {
		c := newClient("cid", "2025-11-25")
		c.Ask = func(context.Context, string, json.RawMessage) (json.RawMessage, error) { return answer() }
		got := says(t, linkTo(t, raw, &c.Peer), "shelf.a", `{"method":"elicitation/create"}`)
		if !strings.Contains(got, `"error"`) || strings.Contains(got, "secret") || name == "own" && !strings.Contains(got, `"code":-1`) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A server that asks without end, and one that takes back what it has asked.
func TestLinkBoundsAsks(t *testing.T) {
	t.Parallel()
	s := open(t, child(t, "asks"))
	await(t, s, steps.StateReady)
	c := newClient("ann", "2025-11-25")
	ended := make(chan struct{}, 100)
	c.Ask = func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
		<-ctx.Done()
		ended <- struct{}{}
		return nil, ctx.Err()
	}
	l := linkTo(t, s, &c.Peer)
	if got := says(t, l, "shelf.a", `{"method":"elicitation/create","times":40}`); !strings.Contains(got, "too many") {
		t.Errorf("the first answer is %s", got)
	}
	for range maxAsks { // they end with the call that they were asked in
		<-ended
	}
	if got := says(t, l, "shelf.a", `{"method":"elicitation/create","cancel":true}`); !strings.Contains(got, `"error"`) {
		t.Errorf("taken back: %s", got)
	}
	<-ended
}

// A client that takes nothing is no reason for others to wait, nor for the server.
func TestLinkWithSlowClient(t *testing.T) {
	t.Parallel()
	s := open(t, child(t, "full"))
	await(t, s, steps.StateReady)
	c := newClient("ann", "2025-11-25")
	hang := make(chan struct{})
	c.Notify = func(context.Context, string, json.RawMessage) { <-hang }
	l := linkTo(t, s, &c.Peer)
	if _, err := l.Do(t.Context(), "logging/setLevel", json.RawMessage(`{"level":"info"}`)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	started := time.Now()
	_, _ = function(t, s, "shelf.log").Call(l.Call(ctx, nil), []byte(`{"n":2000}`))
	if time.Since(started) > patience/2 {
		t.Error("the call did not return")
	}
	close(hang)
	if got := says(t, l, "shelf.pid", `{}`); got == "" {
		t.Error("the session is of no use any more")
	}
}

// A session that is lost comes back with what the client has asked for.
func TestLinkComesBack(t *testing.T) {
	t.Parallel()
	s := open(t, child(t, "full"))
	await(t, s, steps.StateReady)
	c := newClient("ann", "2025-11-25")
	l := linkTo(t, s, &c.Peer)
	for method, params := range map[string]string{"logging/setLevel": `{"level":"info"}`, "resources/subscribe": `{"uri":"a://r"}`} {
		if _, err := l.Do(t.Context(), method, json.RawMessage(params)); err != nil {
			t.Fatal(err)
		}
	}
	before := says(t, l, "shelf.pid", `{}`)
	own := gjson.Parse(do(t, s, "shelf.pid", `{}`)).String()
	if _, err := calls(t, l, "shelf.die", `{}`, ""); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("died: %v", err)
	}
	after := says(t, l, "shelf.pid", `{}`)
	if before == after || before == own || gjson.Parse(do(t, s, "shelf.pid", `{}`)).String() != own {
		t.Errorf("processes: %s, then %s; the source's own %s", before, after, own)
	}
	says(t, l, "shelf.log", `{"n":1}`)
	c.hears(t, "notifications/message")
	says(t, l, "shelf.touch", `{"uri":"a://r"}`)
	c.hears(t, "notifications/resources/updated")
}

// A client without sessions: what is asked comes in results, and is answered in params.
func TestLinkWithoutSession(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(t *testing.T) string{
		"stateless": func(t *testing.T) string {
			return listen(t, httpServer(fullServer(), &sdk.StreamableHTTPOptions{Stateless: true}))
		},
		"stdio": func(*testing.T) string { return "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := child(t, "full")
			if u := url(t); u != "" {
				o = &Options{Name: "shelf", URL: u}
			}
			s := open(t, o)
			await(t, s, steps.StateReady)
			c := newClient("ann", "2026-07-28")
			c.Ask = nil
			l := linkTo(t, s, &c.Peer)
			raw, _ := calls(t, l, "shelf.input", `{}`, `{"_meta":{}}`)
			if gjson.Get(raw, "inputRequests.q.params.message").Str != "which?" || gjson.Get(raw, "requestState").Str != "s1" {
				t.Fatalf("first %s", raw)
			}
			raw, err := calls(t, l, "shelf.input", `{}`, `{"requestState":"s1","inputResponses":{"q":{"action":"accept","content":{"a":"that"}}}}`)
			if err != nil || gjson.Get(raw, "content.0.text").Str != "s1 that" {
				t.Errorf("second %s, %v", raw, err)
			}
			if _, err := calls(t, l, "shelf.input", `{}`, `{"inputResponses":{"q":5}}`); fault.CodeOf(err) != fault.BadArguments {
				t.Errorf("bad responses: %v", err)
			}
			raw, _ = calls(t, l, "shelf.meta", `{}`, `{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"sampling":{}},"io.modelcontextprotocol/protocolVersion":"1"}}`)
			meta := gjson.Parse(gjson.Get(raw, "content.0.text").Str)
			if !meta.Get(`io\.modelcontextprotocol/clientCapabilities.sampling`).Exists() || meta.Get(`io\.modelcontextprotocol/protocolVersion`).Str != "2026-07-28" {
				t.Errorf("_meta %s", meta)
			}
			got, err := l.Do(t.Context(), "resources/read", json.RawMessage(`{"uri":"a://r"}`))
			if err != nil || gjson.GetBytes(got, "contents.0.text").Str != "hi" {
				t.Errorf("read %s, %v", got, err)
			}
			var wire *jsonrpc.Error
			if _, err = l.Do(t.Context(), "resources/read", json.RawMessage(`{"uri":"a://none"}`)); !errors.As(err, &wire) || wire.Code != jsonrpc.CodeInvalidParams {
				t.Errorf("unknown resource: %v", err)
			}
			if _, err := l.Do(t.Context(), "resources/subscribe", json.RawMessage(`{"uri":"a://r"}`)); err != nil {
				t.Fatal(err)
			}
			for len(c.all()) == 0 { // the stream may not be there yet
				says(t, l, "shelf.touch", `{"uri":"a://r"}`)
				time.Sleep(5 * time.Millisecond)
			}
			c.hears(t, "notifications/resources/updated")
			if _, err := l.Do(t.Context(), "resources/unsubscribe", json.RawMessage(`{"uri":"a://r"}`)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestLinkBounds(t *testing.T) {
	t.Parallel()
	o := child(t, "full")
	o.MaxLinks = 2
	s := open(t, o)
	await(t, s, steps.StateReady)
	a, b := linkTo(t, s, nil), linkTo(t, s, nil)
	if says(t, a, "shelf.pid", `{}`) == says(t, b, "shelf.pid", `{}`) {
		t.Error("two clients share a process")
	}
	if _, err := s.Link(t.Context(), nil); fault.CodeOf(err) != fault.LimitExceeded {
		t.Errorf("a third: %v", err)
	}
	before := map[*Link]string{}
	for _, l := range []*Link{a, b} {
		before[l] = says(t, l, "shelf.pid", `{}`)
		l.mu.Lock()
		l.session.used = l.session.used.Add(-time.Hour)
		l.mu.Unlock()
	}
	if _, err := a.Do(t.Context(), "resources/subscribe", json.RawMessage(`{"uri":"a://r"}`)); err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	a.session.used = a.session.used.Add(-2 * time.Hour) // but it has a subscription
	a.mu.Unlock()
	third := linkTo(t, s, nil)
	says(t, third, "shelf.pid", `{}`)
	if says(t, a, "shelf.pid", `{}`) != before[a] {
		t.Error("the session with a subscription has made room")
	}
	_ = third.Close()
	if again := says(t, b, "shelf.pid", `{}`); again == before[b] {
		t.Error("no session has made room")
	}
	_ = a.Close()
	if _, err := a.Do(t.Context(), "ping", nil); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("after its end: %v", err)
	}
	if _, err := calls(t, a, "shelf.pid", `{}`, ""); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("a call after its end: %v", err)
	}
	_ = linkTo(t, s, nil).Close()
	_ = s.Close()
	if _, err := b.Do(t.Context(), "ping", nil); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("after the end of the source: %v", err)
	}
	if _, err := s.Link(t.Context(), nil); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("a link to a closed source: %v", err)
	}
}

// A server that does not start, and one that does not answer.
func TestLinkFailures(t *testing.T) {
	t.Parallel()
	mute := open(t, child(t, "mute in calls"))
	await(t, mute, steps.StateReady)
	c := newClient("ann", "2025-11-25")
	l := linkTo(t, mute, &c.Peer)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := l.Do(ctx, "resources/list", nil); err != nil { // greet answers all but calls with silence
		if code := fault.CodeOf(err); code != fault.Timeout {
			t.Errorf("mute: %v", err)
		}
	} else {
		t.Error("a mute server has answered")
	}
	silent := open(t, &Options{Name: "shelf", Command: "/nowhere/at-all"})
	if _, err := silent.Link(t.Context(), nil); fault.CodeOf(err) != fault.BadRequest {
		t.Errorf("not there: %v", err)
	}
}

// Nothing stays when links are closed.
func TestLinkLeavesNothing(t *testing.T) {
	s := open(t, child(t, "full"))
	await(t, s, steps.StateReady)
	remote := open(t, &Options{Name: "shelf", URL: listen(t, httpServer(fullServer(), nil)), Protocol: legacyProtocol})
	await(t, remote, steps.StateReady)
	round := func() {
		for _, source := range []*Source{s, remote} {
			c := newClient("ann", "2025-11-25")
			l, err := source.Link(t.Context(), &c.Peer)
			if err != nil {
				t.Fatal(err)
			}
			says(t, l, "shelf.ask", `{}`)
			if _, err := l.Do(t.Context(), "resources/subscribe", json.RawMessage(`{"uri":"a://r"}`)); err != nil {
				t.Fatal(err)
			}
			_ = l.Close()
		}
	}
	round() // what lasts is there then
	before := runtime.NumGoroutine()
	for range 5 {
		round()
	}
	late := time.Now().Add(patience / 4)
	for runtime.NumGoroutine() > before+4 && time.Now().Before(late) {
		time.Sleep(10 * time.Millisecond)
	}
	if after := runtime.NumGoroutine(); after > before+4 {
		stacks := make([]byte, 1<<20)
		t.Errorf("%d goroutines before, %d after\n%s", before, after, stacks[:runtime.Stack(stacks, true)])
	}
	if n := len(s.links) + len(remote.links); n != 0 {
		t.Errorf("%d links are left", n)
	}
}

// A tool is listed as its server did, but for icons and _meta, and shares its bytes with the schemas.
func TestListing(t *testing.T) {
	t.Parallel()
	s := newSource(Options{Name: "s", Command: "x"})
	l := lister{source: s, seen: map[string]bool{}}
	l.add(gjson.Parse(`{"icons":[1],"inputSchema":{"type":"object","a":1.50},"name":"t","_meta":{"x":1},"execution":{"taskSupport":"optional"},"title":null,"outputSchema":{"type":"object"},"x\"y":1}`))
	spec := s.spec(&s.named(l.tools)[0])
	if want := `{"name":"t","inputSchema":{"type":"object","a":1.50},"outputSchema":{"type":"object"},"execution":{"taskSupport":"optional"},"x\"y":1}`; string(spec.Listing) != want {
		t.Errorf("listed %s", spec.Listing)
	}
	if string(spec.Input) != `{"type":"object","a":1.50}` || string(spec.Output) != `{"type":"object"}` {
		t.Errorf("schemas %s, %s", spec.Input, spec.Output)
	}
	spec.Listing[len(`{"name":"t","inputSchema":{`)] = '\''
	if spec.Input[1] != '\'' {
		t.Error("the schema is a copy")
	}
}
