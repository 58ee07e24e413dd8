package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// A server's request is refused if the client does not support it or cannot be asked.
func TestUpstreamSessionRefusesRequests(t *testing.T) {
	t.Parallel()
	s := openReady(t, childOptions(t, "full"))
	unaskable := newClient("ann", "2025-11-25")
	unaskable.Ask = nil
	if got := callText(t, openSession(t, s, &unaskable.DownstreamClient), "shelf.ask", `{}`); !strings.HasPrefix(got, "refused: ") ||
		!strings.Contains(got, "the client cannot be asked") {
		t.Errorf("a client that cannot be asked: got %s, want that said", got)
	}
	raw := openReady(t, childOptions(t, "asks"))
	simple := newClient("bob", "2025-11-25")
	if got := callText(t, openSession(t, raw, &simple.DownstreamClient), "shelf.a",
		`{"method":"sampling/createMessage"}`); !strings.Contains(got, "has not declared") {
		t.Errorf("sampling: got %s, want it refused", got)
	}
	if got := callText(t, openSession(t, raw, &simple.DownstreamClient), "shelf.a", `{"method":"elicitation/create"}`); !strings.Contains(got,
		`"a":"bob"`) {
		t.Errorf("elicitation: got %s, want bob as a", got)
	}
	for name, answer := range map[string]func() (json.RawMessage, error){
		"garbage":   func() (json.RawMessage, error) { return json.RawMessage(`{"a`), nil },
		"RPC error": func() (json.RawMessage, error) { return nil, &jsonrpc.Error{Code: -1, Message: "garbage no"} },
		"error":     func() (json.RawMessage, error) { return nil, errors.New("garbage secret") },
	} {
		c := newClient("cid", "2025-11-25")
		c.Ask = func(context.Context, string, json.RawMessage) (json.RawMessage, error) { return answer() }
		got := callText(t, openSession(t, raw, &c.DownstreamClient), "shelf.a", `{"method":"elicitation/create"}`)
		if !strings.Contains(got, `"error"`) || strings.Contains(got, "secret") || name == "RPC error" && !strings.Contains(got, `"code":-1`) {
			t.Errorf("client answers %s: got %s, want an error without the secret", name, got)
		}
	}
}

// A server that asks endlessly, and a server that cancels its requests.
func TestUpstreamSessionBoundsRequests(t *testing.T) {
	t.Parallel()
	s := openReady(t, childOptions(t, "asks"))
	c := newClient("ann", "2025-11-25")
	var begun, ended atomic.Int32
	c.Ask = func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
		begun.Add(1)
		<-ctx.Done()
		ended.Add(1)
		return nil, ctx.Err()
	}
	l := openSession(t, s, &c.DownstreamClient)
	if got := callText(t, l, "shelf.a", `{"method":"elicitation/create","times":40}`); !strings.Contains(got, "too many") {
		t.Errorf("the answer to too many requests: got %s, want too many", got)
	}
	until(t, s, func() bool { return begun.Load() == ended.Load() }) // they end with the call during which they were made
	if n := begun.Load(); n > 16 {
		t.Errorf("%d requests ran at once, want at most 16", n)
	}
	if got := callText(t, l, "shelf.a", `{"method":"elicitation/create","cancel":true}`); !strings.Contains(got, `"error"`) {
		t.Errorf("a cancelled request: got %s, want an error", got)
	}
	// A request that is cancelled before the client is asked never reaches the client.
	until(t, s, func() bool { return begun.Load() == ended.Load() })
}

// A request stays valid for its call even if a later call ends first: over stdio the server does not say which call it means.
func TestUpstreamSessionRequestsOutlastOtherCalls(t *testing.T) {
	t.Parallel()
	s := openReady(t, childOptions(t, "full"))
	c := newClient("ann", "2025-11-25")
	asked, answer := make(chan struct{}), make(chan struct{})
	c.Ask = func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
		close(asked)
		select {
		case <-answer:
			return json.RawMessage(`{"action":"accept","content":{"a":"ann"}}`), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	l := openSession(t, s, &c.DownstreamClient)
	late, blocked := make(chan string, 1), make(chan string, 1)
	begun := make(chan struct{})
	ctx := steps.WithCallbacks(t.Context(), &steps.Callbacks{Progress: func(context.Context, float64, float64, string) { close(begun) }})
	go func() {
		result, _ := function(t, s, functionOfTool(t, s, "ask late")).Call(l.CallContext(ctx, nil), []byte(`{}`))
		late <- string(result)
	}()
	<-begun // the other call is the latest
	go func() { blocked <- callText(t, l, "shelf.hold", `{}`) }()
	<-asked
	callText(t, l, functionOfTool(t, s, "let go"), `{}`)
	if got := <-blocked; got != "held" {
		t.Errorf("the other call: got %s, want held", got)
	}
	close(answer)
	if got := <-late; got != `"accept ann"` {
		t.Errorf("the call that asks: got %s, want \"accept ann\"", got)
	}
}

// functionOfTool returns the function of a tool whose name is not a valid function name.
func functionOfTool(t testing.TB, s *mcpsource.Source, tool string) string {
	t.Helper()
	for _, fn := range s.Functions() {
		if gjson.GetBytes(fn.Listing, "name").Str == tool {
			return fn.Name
		}
	}
	t.Fatalf("the source has no tool %q", tool)
	return ""
}

// A server that asks endlessly and reads no answers loses its session, and uses few resources until then.
func TestEndlessRequests(t *testing.T) {
	t.Parallel()
	s := openReady(t, childOptions(t, "floods"))
	c := newClient("ann", "2025-11-25")
	l := openSession(t, s, &c.DownstreamClient)
	for name, ctx := range map[string]context.Context{"in a session": l.CallContext(t.Context(), nil), "without a session": t.Context()} {
		before := runtime.NumGoroutine()
		_, err := function(t, s, "shelf.a").Call(ctx, []byte(`{}`))
		if fault.CodeOf(err) != fault.Unavailable {
			t.Errorf("%s: %v, want unavailable", name, err)
		}
		if after := runtime.NumGoroutine(); after > before+500 {
			t.Errorf("%s: got %d goroutines, %d before, want at most 500 more", name, after, before)
		}
	}
	until(t, s, func() bool {
		f := s.Status().Error
		return f != nil && strings.Contains(f.Message, "does not read the answers")
	})
}

// Roots replace a server's configured directories, so only clients that may choose the directories can send them.
func TestUpstreamSessionRoots(t *testing.T) {
	t.Parallel()
	for _, allowed := range []bool{false, true} {
		t.Run(fmt.Sprint(allowed), func(t *testing.T) {
			t.Parallel()
			o := childOptions(t, "full")
			o.Roots = allowed
			s := openReady(t, o)
			c := newClient("ann", "2025-11-25")
			c.Capabilities.RootsV2 = &sdk.RootCapabilities{} //nolint:staticcheck // clients still have roots
			c.Ask = func(_ context.Context, method string, _ json.RawMessage) (json.RawMessage, error) {
				c.record(method)
				return json.RawMessage(`{"roots":[{"uri":"file:///"}]}`), nil
			}
			l := openSession(t, s, &c.DownstreamClient)
			if got := callText(t, l, "shelf.roots", `{}`); (got == "1 roots") != allowed || (len(c.received()) > 0) != allowed {
				t.Errorf("got roots %s and client requests %q, want both: %t", got, c.received(), allowed)
			}
			l.do(t, "notifications/roots/list_changed", "")
			newer := newClient("bob", "2026-07-28")
			newer.Ask = nil
			raw, err := callTool(t, openSession(t, s, &newer.DownstreamClient), functionOfTool(t, s, "input roots"), `{}`, `{"inputResponses":{"q":{"roots":[{"uri":"file:///"}]}},
				"_meta":{"io.modelcontextprotocol/clientCapabilities":{"roots":{},"elicitation":{},"extensions":{"x/y":{}}}}}`)
			if err != nil {
				t.Fatal(err)
			}
			got := gjson.Get(raw, "content.0.text").Str
			if strings.HasPrefix(got, "true ") != allowed || strings.Contains(got, "roots") != allowed || !strings.Contains(got, "elicitation") ||
				strings.Contains(got, "extensions") {
				t.Errorf("roots in params: got %s, want roots: %t, and elicitation", got, allowed)
			}
		})
	}
}

// Several clients share a session: a message that names no call goes to none of them, and log messages go only to the call that requested
// them.
func TestUpstreamSessionShared(t *testing.T) {
	t.Parallel()
	eachTransport(t, &sdk.StreamableHTTPOptions{Stateless: true}, func(t *testing.T, s *mcpsource.Source) {
		type caller struct{}
		c := newClient("", "2026-07-28")
		c.Ask, c.Shared = nil, true
		c.Notify = func(ctx context.Context, method string, params json.RawMessage) {
			c.record(fmt.Sprint(ctx.Value(caller{}), " ", method, " ", string(params)))
		}
		l := openSession(t, s, &c.DownstreamClient)
		call := func(name, tool, params string) {
			ctx := context.WithValue(t.Context(), caller{}, name)
			if _, err := function(t, s, functionOfTool(t, s, tool)).Call(l.CallContext(ctx, json.RawMessage(params)),
				[]byte(`{"who":"`+name+`","n":2}`)); err != nil {
				t.Error(err)
			}
		}
		asks := `{"_meta":{"io.modelcontextprotocol/logLevel":"debug"}}`
		var all sync.WaitGroup
		all.Go(func() { call("ann", "log late", asks) })
		all.Go(func() { call("bob", "hold", asks) })
		all.Go(func() { call("cid", "let go", "") })
		all.Wait()
		for _, params := range []string{"", `{"_meta":{"io.modelcontextprotocol/logLevel":"error"}}`} {
			call("dan", "log", params)
		}
		call("eve", "log", asks)
		for _, what := range c.received() {
			if !strings.HasPrefix(what, "ann ") && !strings.HasPrefix(what, "eve ") || strings.HasPrefix(what, "ann ") != strings.Contains(what,
				"secret of ann") {
				t.Errorf("a notification reached the wrong call: %s", what)
			}
		}
		if streams := strings.HasSuffix(t.Name(), "http"); streams != (len(c.received()) == 3) {
			t.Errorf("got notifications %q, want 3 over HTTP only", c.received())
		}
	})
}
