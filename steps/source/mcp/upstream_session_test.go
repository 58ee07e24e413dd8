package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// testClient is a client that records what it receives.
type testClient struct {
	mcpsource.DownstreamClient
	mu       sync.Mutex
	reports  []string
	recorded chan struct{}
}

// newClient returns a client that can be asked: it answers with its own name.
func newClient(name, protocol string) *testClient {
	c := &testClient{recorded: make(chan struct{}, 1)}
	c.DownstreamClient = mcpsource.DownstreamClient{
		Capabilities: &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{}}, Protocol: protocol,
		Info: &sdk.Implementation{Name: name, Version: "1"},
		Ask: func(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
			c.record(method + " " + gjson.GetBytes(params, "message").String())
			return json.RawMessage(`{"action":"accept","content":{"a":"` + name + `"}}`), nil
		},
		Notify: func(_ context.Context, method string, params json.RawMessage) {
			c.record(method + " " + string(params))
		},
	}
	return c
}

func (c *testClient) record(report string) {
	c.mu.Lock()
	c.reports = append(c.reports, report)
	c.mu.Unlock()
	select {
	case c.recorded <- struct{}{}:
	default:
	}
}

func (c *testClient) received() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.reports)
}

// awaitNotification waits until the client receives something with this prefix.
func (c *testClient) awaitNotification(t testing.TB, prefix string) string {
	t.Helper()
	timeout := time.After(patience)
	for {
		for _, report := range c.received() {
			if strings.HasPrefix(report, prefix) {
				return report
			}
		}
		select {
		case <-c.recorded:
		case <-timeout:
			t.Fatalf("no notification begins with %q: got %q", prefix, c.received())
		}
	}
}

// session is a client's session with the server of a source.
type session struct {
	*mcpsource.UpstreamSession
	source *mcpsource.Source
}

// openSession opens a session that is closed with the test.
func openSession(t testing.TB, s *mcpsource.Source, p *mcpsource.DownstreamClient) *session {
	t.Helper()
	l, err := s.OpenSession(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return &session{l, s}
}

// do makes a request that must succeed; params "": none.
func (l *session) do(t testing.TB, method, params string) string {
	t.Helper()
	result, err := l.Do(t.Context(), method, json.RawMessage(params))
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return string(result)
}

// callTool calls a function in a session, and returns its result as the server wrote it.
func callTool(t testing.TB, l *session, name, args, params string) (string, error) {
	t.Helper()
	var raw string
	ctx := steps.WithCallbacks(t.Context(), &steps.Callbacks{Verbatim: func(result []byte) { raw = string(result) }})
	_, err := function(t, l.source, name).Call(l.CallContext(ctx, json.RawMessage(params)), []byte(args))
	return raw, err
}

// callText returns the text of the result of a call that must succeed.
func callText(t testing.TB, l *session, name, args string) string {
	t.Helper()
	raw, err := callTool(t, l, name, args, "")
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return gjson.Get(raw, "content.0.text").String()
}

// eachTransport runs a test on a source with the full server over stdio, and over HTTP with these options.
func eachTransport(t *testing.T, o *sdk.StreamableHTTPOptions, test func(t *testing.T, s *mcpsource.Source)) {
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		s := openReady(t, childOptions(t, "full"))
		test(t, s)
	})
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		s := openReady(t, &mcpsource.Options{Name: "shelf", URL: listen(t, httpServer(fullServer(), o))})
		test(t, s)
	})
}

func TestUpstreamSession(t *testing.T) {
	t.Parallel()
	eachTransport(t, nil, func(t *testing.T, s *mcpsource.Source) {
		if c := s.Capabilities(); c == nil || c.Resources == nil || !c.Resources.Subscribe || c.Prompts == nil || c.Completions == nil {
			t.Fatalf("got capabilities %+v, want resources with subscribe, prompts and completions", c)
		}
		c := newClient("ann", "2025-11-25")
		l := openSession(t, s, &c.DownstreamClient)
		if got := l.do(t, "resources/read", `{"uri":"a://r","_meta":{"progressToken":"mine","x":1}}`); !strings.Contains(got,
			`"n":12345678901234567890`) {
			t.Errorf("resources/read: got %s, want n 12345678901234567890", got)
		}
		if got := c.awaitNotification(t, "notifications/progress"); got != `notifications/progress {"progressToken":"mine","progress":1,"total":2}` {
			t.Errorf("got progress %s, want 1 of 2 for the token mine", got)
		}
		if got := l.do(t, "prompts/get", `{"name":"p"}`); gjson.Get(got, "messages.0.content.text").Str != "do" {
			t.Errorf("prompts/get: got %s, want do", got)
		}
		if got := l.do(t, "completion/complete", `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"Ber"}}`); gjson.Get(got, "completion.values.0").Str != "Berlin" {
			t.Errorf("completion/complete: got %s, want Berlin", got)
		}
		l.do(t, "ping", "")
		if got := l.do(t, "resources/list", ""); gjson.Get(got, "resources.#").Int() != 1 {
			t.Errorf("resources/list: got %s, want one", got)
		}
		_, err := l.Do(t.Context(), "resources/read", json.RawMessage(`{"uri":"a://none"}`))
		var rpcErr *jsonrpc.Error
		if !errors.As(err, &rpcErr) || rpcErr.Code == 0 || !strings.Contains(string(rpcErr.Data), "a://none") {
			t.Errorf("an unknown resource: got %v, want an error with a code and a://none as data", err)
		}
		if got := callText(t, l, "shelf.ask", `{"q":"who"}`); got != "accept ann" {
			t.Errorf("shelf.ask: got %s, want accept ann", got)
		}
		l.do(t, "logging/setLevel", `{"level":"info"}`)
		callText(t, l, "shelf.log", `{"n":2}`)
		if got := c.awaitNotification(t, "notifications/message"); !strings.Contains(got, `"big":12345678901234567890`) {
			t.Errorf("got log %s, want big 12345678901234567890", got)
		}
		l.do(t, "resources/subscribe", `{"uri":"a://r"}`)
		callText(t, l, "shelf.touch", `{"uri":"a://r"}`)
		c.awaitNotification(t, "notifications/resources/updated")
		callText(t, l, "shelf.more", `{}`)
		c.awaitNotification(t, "notifications/prompts/list_changed")
		if _, err := callTool(t, l, "shelf.fail", `{}`, ""); !errors.As(err.(*fault.Error).Err, &rpcErr) || rpcErr.Code != -32042 || string(rpcErr.Data) != `{"elicitations":[]}` { //nolint:errorlint // looked into by hand
			t.Errorf("shelf.fail: got %v, want -32042 with elicitations", err)
		}
		raw, err := callTool(t, l, "shelf.meta", `{}`, `{"_meta":{"progressToken":7,"mine":[1.50],"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`)
		if got := gjson.Get(raw, "content.0.text").Str; err != nil || got != `{"mine":[1.5]}` {
			t.Errorf("shelf.meta: got %s, %v, want {\"mine\":[1.5]}", got, err)
		}
		for _, method := range []string{"", "initialize", "tools/call", "notifications/initialized", "server/discover"} {
			if _, err := l.Do(t.Context(), method, nil); fault.CodeOf(err) != fault.BadRequest {
				t.Errorf("%s: %v, want bad_request", method, err)
			}
		}
		if _, err := l.Do(t.Context(), "resources/read", json.RawMessage(`[1]`)); fault.CodeOf(err) != fault.BadRequest {
			t.Errorf("params that are a list: got %v, want bad_request", err)
		}
	})
}

// Messages for one client reach no other client, even if both call at the same time.
func TestUpstreamSessionsAreIsolated(t *testing.T) {
	t.Parallel()
	eachTransport(t, nil, func(t *testing.T, s *mcpsource.Source) {
		var all sync.WaitGroup
		clients := map[string]*testClient{}
		for _, name := range []string{"ann", "bob", "cid"} {
			c := newClient(name, "2025-11-25")
			clients[name] = c
			l := openSession(t, s, &c.DownstreamClient)
			l.do(t, "logging/setLevel", `{"level":"info"}`)
			if name == "cid" { // a client without calls must receive nothing
				continue
			}
			all.Go(func() {
				for i := range 10 {
					if got := callText(t, l, "shelf.ask", fmt.Sprintf(`{"q":"%s%d"}`, name, i)); got != "accept "+name {
						t.Errorf("%s got the answer %s, want accept %s", name, got, name)
					}
					callText(t, l, "shelf.log", `{"n":3}`)
				}
			})
		}
		all.Wait()
		if reports := clients["cid"].received(); len(reports) > 0 {
			t.Errorf("cid, a client without calls, received %q, want nothing", reports)
		}
		for _, name := range []string{"ann", "bob"} {
			requests, logged := 0, 0
			for _, report := range clients[name].received() {
				switch {
				case strings.HasPrefix(report, "elicitation/create "+name):
					requests++
				case strings.HasPrefix(report, "notifications/message"):
					logged++
				default:
					t.Errorf("%s received %s", name, report)
				}
			}
			if requests != 10 || logged != 30 {
				t.Errorf("%s received %d requests and %d log messages, want 10 and 30", name, requests, logged)
			}
		}
	})
}

// A client without sessions: requests arrive in results, and answers are sent in params.
func TestUpstreamSessionWithoutSession(t *testing.T) {
	t.Parallel()
	eachTransport(t, &sdk.StreamableHTTPOptions{Stateless: true}, func(t *testing.T, s *mcpsource.Source) {
		c := newClient("ann", "2026-07-28")
		c.Ask = nil
		l := openSession(t, s, &c.DownstreamClient)
		raw, _ := callTool(t, l, "shelf.input", `{}`, `{"_meta":{}}`)
		if gjson.Get(raw, "inputRequests.q.params.message").Str != "which?" || gjson.Get(raw, "requestState").Str != "s1" {
			t.Fatalf("the first call: got %s, want an input request", raw)
		}
		raw, err := callTool(t, l, "shelf.input", `{}`, `{"requestState":"s1","inputResponses":{"q":{"action":"accept","content":{"a":"that"}}}}`)
		if err != nil || gjson.Get(raw, "content.0.text").Str != "s1 that" {
			t.Errorf("the second call: got %s, %v, want s1 that", raw, err)
		}
		if _, err := callTool(t, l, "shelf.input", `{}`, `{"inputResponses":{"q":5}}`); fault.CodeOf(err) != fault.BadArguments {
			t.Errorf("invalid input responses: got %v, want bad_arguments", err)
		}
		raw, _ = callTool(t, l, "shelf.meta", `{}`, `{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"sampling":{}},"io.modelcontextprotocol/protocolVersion":"1"}}`)
		meta := gjson.Parse(gjson.Get(raw, "content.0.text").Str)
		if !meta.Get(`io\.modelcontextprotocol/clientCapabilities.sampling`).Exists() ||
			meta.Get(`io\.modelcontextprotocol/protocolVersion`).Str != "2026-07-28" {
			t.Errorf("got _meta %s, want sampling, and version 2026-07-28", meta)
		}
		if got := l.do(t, "resources/read", `{"uri":"a://r"}`); gjson.Get(got, "contents.0.text").Str != "hi" {
			t.Errorf("resources/read: got %s, want hi", got)
		}
		var rpcErr *jsonrpc.Error
		if _, err := l.Do(t.Context(), "resources/read", json.RawMessage(`{"uri":"a://none"}`)); !errors.As(err, &rpcErr) ||
			rpcErr.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("an unknown resource: got %v, want invalid params", err)
		}
		l.do(t, "resources/subscribe", `{"uri":"a://r"}`)
		poll(func() bool { // the stream may not be open yet
			callText(t, l, "shelf.touch", `{"uri":"a://r"}`)
			return len(c.received()) > 0
		})
		c.awaitNotification(t, "notifications/resources/updated")
		l.do(t, "resources/unsubscribe", `{"uri":"a://r"}`)
	})
}
