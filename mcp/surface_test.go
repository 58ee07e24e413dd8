package mcp_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/syncbuf"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/groups"
)

// grouped puts the items of the shop behind a dispatcher.
func grouped(surface mcp.Surface) func(*mcp.Options) {
	return func(o *mcp.Options) {
		o.Surface = surface
		o.Dispatch, _ = groups.New(&groups.Config{Groups: []groups.Group{{Name: "items", Resources: []string{"item"}}}})
	}
}

// TestHelpWithinBudget: signatures that help did not show do not count as known.
func TestHelpWithinBudget(t *testing.T) {
	t.Parallel()
	small := serve(t, func(o *mcp.Options) { grouped(mcp.SurfaceDispatch)(o); o.MaxTotalTokens = 150 }).stdio(t, writer, nil)
	for range 2 {
		if text, _ := mcptest.Ask(t, small, "items", `{"action":"help","params":{"action":"get"}}`); !strings.Contains(text, "id: integer") &&
			!strings.Contains(text, `"get"`) {
			t.Errorf("help in 150 tokens: %s, want the action get", text)
		}
	}
}

// startingSource is a source that becomes ready when the test says so.
type startingSource struct {
	*shop
	mu      sync.Mutex
	ready   bool
	changed func()
}

func (s *startingSource) Status() steps.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready {
		return steps.Status{State: steps.StateReady}
	}
	return steps.Status{State: steps.StateStarting}
}

func (s *startingSource) Functions() []steps.Function {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready {
		return nil
	}
	return []steps.Function{{Spec: steps.Spec{Name: "late.item.come", Effect: steps.Read},
		Call: func(context.Context, []byte) ([]byte, error) { return []byte(`1`), nil }}}
}

func (s *startingSource) Watch(changed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = changed
}

func (s *startingSource) becomeReady() {
	s.mu.Lock()
	s.ready = true
	changed := s.changed
	s.mu.Unlock()
	changed()
}

// TestStartingSource: calls of every tool wait for their function while sources are starting.
func TestStartingSource(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ tool, args, want string }{
		{"chain", `{"lite":true,"steps":[{"fn":"late.item.come"}]}`, `1`},
		{"items", `{"action":"come","lite":true}`, `1`},
		{"items", `{"action":"help","lite":true}`, `"come"`},
		{"search", `{"query":"come"}`, `late.item.come`},
		{"search", `{"names":["late.item.come"]}`, `late.item.come`},
	} {
		t.Run(test.tool+test.args, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, grouped(mcp.SurfaceDispatch))
				late := &startingSource{shop: newShop()}
				if err := s.catalog.Add("late", late); err != nil {
					t.Fatal(err)
				}
				client := s.stdio(t, writer, nil)
				time.AfterFunc(100*time.Millisecond, late.becomeReady)
				if text, failed := mcptest.Ask(t, client, test.tool, test.args); failed || !strings.Contains(text, test.want) {
					t.Errorf("want %s, got %s", test.want, text)
				}
			})
		})
	}
}

// output is the end of a pipe that remembers what was written before it was closed.
type output struct {
	syncbuf.Buffer
	closed atomic.Bool
}

func (o *output) Write(p []byte) (int, error) {
	if o.closed.Load() {
		return 0, os.ErrClosed
	}
	return o.Buffer.Write(p)
}

func (o *output) Close() error {
	o.closed.Store(true)
	return nil
}

// TestStartingSourceAfterEndOfInput: a client that has closed its input gets the answers that wait for a source, however slowly the source
// starts, and an answer even if it never starts.
func TestStartingSourceAfterEndOfInput(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		starts time.Duration
		want   string
	}{{2 * time.Minute, `"text":"1"`}, {time.Hour, `unknown tool`}} {
		t.Run(test.starts.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, func(o *mcp.Options) { o.Surface = mcp.SurfaceFlat })
				late := &startingSource{shop: newShop()}
				if err := s.catalog.Add("late", late); err != nil {
					t.Fatal(err)
				}
				defer time.AfterFunc(test.starts, late.becomeReady).Stop()
				in := strings.NewReader(mcptest.Hello + `
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"late_item_come","arguments":{}}}
`)
				out := &output{}
				if err := s.ServeStdio(t.Context(), io.NopCloser(in), out, writer); err != nil {
					t.Error(err)
				}
				if !strings.Contains(out.String(), `"id":2`) || !strings.Contains(out.String(), test.want) {
					t.Errorf("the output lacks an answer with %q: %s", test.want, out)
				}
			})
		})
	}
}

// TestListChanged: clients are notified of tools that are added or removed, and of nothing else.
func TestListChanged(t *testing.T) {
	t.Parallel()
	for _, surface := range []mcp.Surface{mcp.SurfaceChain, mcp.SurfaceFlat} {
		t.Run(surface.String(), func(t *testing.T) {
			t.Parallel()
			s := serve(t, grouped(surface))
			changed := make(chan struct{}, 10)
			client := s.stdio(t, writer, &sdk.ClientOptions{ToolListChangedHandler: func(context.Context,
				*sdk.ToolListChangedRequest) {
				changed <- struct{}{}
			}})
			before := names(t, client)
			late := newShop()
			late.extra = []steps.Function{{Spec: steps.Spec{Name: "late.come", Effect: steps.Read},
				Call: func(context.Context, []byte) ([]byte, error) { return []byte(`1`), nil }}}
			if err := s.catalog.Add("late", late); err != nil {
				t.Fatal(err)
			}
			if surface == mcp.SurfaceChain {
				if text, failed := mcptest.Ask(t, client, "chain", `{"lite":true,"steps":[{"fn":"late.come"}]}`); failed || text != "1" {
					t.Errorf("the new function: %s, want 1", text)
				}
				if names(t, client) != before || len(changed) > 0 {
					t.Error("the list of tools changed, or the client was notified")
				}
				return
			}
			select {
			case <-changed:
			case <-time.After(2 * time.Minute):
				t.Fatal("the client was not notified")
			}
			if got := names(t, client); !strings.Contains(got, "late_come") {
				t.Errorf("the list of tools lacks late_come: %s", got)
			}
		})
	}
}

// TestHTTPRefusesLargeMessages: messages that are too large are refused from every client.
func TestHTTPRefusesLargeMessages(t *testing.T) {
	t.Parallel()
	url := serve(t, func(o *mcp.Options) { o.MaxRequestBytes = 10_000 }).http(t, reader)
	if r, text := mcptest.Send(t, "POST", url, `{"x":"`+strings.Repeat("a", 100_000)+`"}`, nil); r.StatusCode != 413 {
		t.Errorf("a large message: status %d, want 413: %s", r.StatusCode, text)
	}
	if r, text := mcptest.Send(t, "POST", url, mcptest.Hello, mcptest.Header{"X-Large": strings.Repeat("x", 100_000)}); r.StatusCode != 431 {
		t.Errorf("large headers: status %d, want 431: %s", r.StatusCode, text)
	}
}

func FuzzTools(f *testing.F) {
	for _, args := range []string{
		`{}`, `null`, `[]`, `{"query":"item"}`, `{"names":["shop.item.get"]}`, `{"action":"create","count":2}`, `{"steps":[{"fn":"shop.item.create"}]}`,
		`{"continuation_token":"oc1_x"}`, `{"params":{"continuation_token":"oc1_x"}}`, `{"lite":true}`, `{"action":"help","lite":true}`, `{"text":"a"}`,
		`{"steps":[{"fn":"shop.vault.purge","args":{"vaultKey":"k"}}]}`,
	} {
		f.Add(uint8(0), args)
	}
	s := serve(f, func(o *mcp.Options) { grouped(mcp.SurfaceHybrid)(o); o.MaxTotalTokens = 300 })
	client := s.stdio(f, reader, nil)
	list, err := client.ListTools(context.Background(), nil)
	if err != nil {
		f.Fatal(err)
	}
	counter := s.options.Counter
	f.Fuzz(func(t *testing.T, tool uint8, args string) {
		if !json.Valid([]byte(args)) || strings.Contains(args, "slow") {
			return
		}
		name := list.Tools[int(tool)%len(list.Tools)].Name
		if name == "shop_slow" {
			return
		}
		result, err := client.CallTool(context.Background(), &sdk.CallToolParams{Name: name, Arguments: json.RawMessage(args)})
		if err != nil {
			return // an error of the protocol, for instance because the arguments are not an object
		}
		text := result.Content[0].(*sdk.TextContent).Text
		if n := counter.Count([]byte(text), -1); n > 300 {
			t.Errorf("%s %s: %d tokens, want at most 300: %s", name, args, n, text)
		}
		if !json.Valid([]byte(text)) {
			t.Errorf("%s %s: the answer is not JSON: %s", name, args, text)
		}
		for _, word := range []string{"purge", "vaultKey", "secret things"} {
			if strings.Contains(text, word) && !strings.Contains(args, word) {
				t.Errorf("%s %s: the answer shows %s: %s", name, args, word, text)
			}
		}
	})
}

// quotingSource has one function with an output schema, whose result is a string.
type quotingSource struct{}

func (quotingSource) Functions() []steps.Function {
	return []steps.Function{{
		Spec: steps.Spec{Name: "text.quoted", Effect: steps.Read, Output: json.RawMessage(`{"type":"string"}`)},
		Call: func(context.Context, []byte) ([]byte, error) { return []byte(`"{\"a\":1}"`), nil },
	}}
}

func (quotingSource) Close() error { return nil }

// TestStringIsNotStructured: structured content is an object before MCP 2026-07-28, so a string that begins like one is only text.
func TestStringIsNotStructured(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *mcp.Options) {
		o.Surface = mcp.SurfaceFlat
		if err := o.Catalog.Add("text", quotingSource{}); err != nil {
			t.Fatal(err)
		}
	})
	client := s.stdio(t, writer, nil)
	defer client.Close()
	if text, _ := mcptest.Ask(t, client, "text_quoted", "{}"); text != `{"a":1}` { // Ask refuses structured content
		t.Errorf("got %s, want {\"a\":1}", text)
	}
}

// TestLostWriteOnEverySurface: a write with an unknown outcome is told in the same way by a chain, a dispatcher and a flat tool. It must
// not be sent again, but can be resumed.
func TestLostWriteOnEverySurface(t *testing.T) {
	t.Parallel()
	spec := steps.Spec{Name: "shop.item.lose", EffectDeclared: true, Input: json.RawMessage(`{"type":"object"}`)}
	lose := steps.Function{Spec: spec, Call: func(context.Context, []byte) ([]byte, error) {
		f := fault.New(fault.Unavailable, "the connection was lost")
		f.Outcome = fault.SentUnknown
		return nil, f
	}}
	for _, test := range []struct {
		surface    mcp.Surface
		tool, args string
	}{
		{mcp.SurfaceChain, "chain", `{"steps":[{"fn":"shop.item.lose"}]}`},
		{mcp.SurfaceDispatch, "items", `{"action":"lose"}`},
		{mcp.SurfaceFlat, "shop_item_lose", `{}`},
		{mcp.SurfaceHybrid, "shop_item_lose", `{}`},
	} {
		t.Run(test.surface.String(), func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(o *mcp.Options) {
				grouped(test.surface)(o)
				if err := o.Catalog.Add("late", functionsSource{lose}); err != nil {
					t.Fatal(err)
				}
				runs, err := journal.New(&journal.Memory{}, nil)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = runs.Close() })
				if o.Engine, err = chain.New(&chain.Options{Functions: o.Catalog, Counter: o.Counter, Journal: runs}); err != nil {
					t.Fatal(err)
				}
			})
			text, failed := mcptest.Ask(t, s.stdio(t, writer, nil), test.tool, test.args)
			answer := gjson.Parse(text)
			if !failed || answer.Get("error.outcome").Str != "sent_unknown" || answer.Get("error.retryable").Raw != "false" ||
				answer.Get("writes.0.outcome").Str != "sent_unknown" || answer.Get("resume").Str == "" {
				t.Errorf("got %s, want sent_unknown, not retryable, with writes and resume", text)
			}
		})
	}
}
