package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
)

// TestAskClientsOfBothEras: what a server of an older version asks reaches its client, whichever version of MCP the client speaks, over
// HTTP and stdio, in a flat tool and in a chain.
func TestAskClientsOfBothEras(t *testing.T) {
	t.Parallel()
	for name, upstream := range map[string]*upstreamServer{"http": newUpstream(t, "a", false), "stdio": newStdioUpstream(t, "a")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			askClients(t, upstream)
		})
	}
}

func askClients(t *testing.T, upstream *upstreamServer) {
	t.Helper()
	s := servePassThrough(t, upstream)
	url := s.http(t, reader)
	for _, version := range []string{statefulVersion, statelessVersion} {
		for name, open := range map[string]func(o *sdk.ClientOptions) *sdk.ClientSession{
			"http": func(o *sdk.ClientOptions) *sdk.ClientSession { return connectHTTP(t, url, version, o) },
			"stdio": func(o *sdk.ClientOptions) *sdk.ClientSession {
				return mcptest.StdioOf(t, o, version, func(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
					return s.ServeStdio(ctx, in, out, reader)
				})
			},
		} {
			who := name + " " + version
			_, o := capableClient(who)
			c := open(o)
			for tool, want := range map[string]string{"a_ask": "accept " + who, "a_sample": who, "a_roots": "0 roots"} {
				if text, failed := mcptest.Ask(t, c, tool, `{}`); failed || text != want {
					t.Errorf("%s: %s answers %s, want %s", who, tool, text, want)
				}
				if text, failed := mcptest.Ask(t, c, "chain", `{"lite":true,"steps":[{"fn":"`+tool+`"}]}`); failed || text != `"`+want+`"` {
					t.Errorf("%s: %s in a chain answers %s, want %q", who, tool, text, want)
				}
			}
			if upstream.front == nil && name == "http" && version == statelessVersion {
				continue // of concurrent calls of clients that share a process, it would not be known which one asks
			}
			var all sync.WaitGroup
			for i := range 5 {
				all.Go(func() {
					args := fmt.Sprintf(`{"lite":true,"steps":[{"fn":"a_ask","args":{"n":%d}},{"fn":"a_sample","args":{"after":"$0"}}]}`, i)
					if text, failed := mcptest.Ask(t, c, "chain", args); failed || text != `"`+who+`"` {
						t.Errorf("%s: two questions in a chain: %s, want %s", who, text, who)
					}
				})
			}
			all.Wait()
		}
	}
}

// TestRepeatedRequests: a call goes on only for the client that repeats its request with the state of the last result, once.
func TestRepeatedRequests(t *testing.T) {
	t.Parallel()
	s := servePassThrough(t, newUpstream(t, "a", false))
	_, o := capableClient("ann")
	o.MultiRoundTrip = &sdk.MultiRoundTripOptions{Disabled: true}
	c := connectHTTP(t, s.http(t, reader), statelessVersion, o)
	call := func(args, state string, answers sdk.InputResponseMap) *sdk.CallToolResult {
		t.Helper()
		result, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "a_ask", Arguments: json.RawMessage(args), RequestState: state,
			InputResponses: answers})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	asked := call(`{"n":1}`, "", nil)
	if question, ok := asked.InputRequests["q1"].(*sdk.ElicitParams); !asked.NeedsInput() || !ok || question.Message != `{"n":1}` {
		t.Fatalf("got %+v, want a request for input", asked)
	}
	other := call(`{"n":2}`, "", nil)
	yes := sdk.InputResponseMap{"q1": &sdk.ElicitResult{Action: "accept", Content: map[string]any{"a": "yes"}}}
	for name, test := range map[string]struct{ args, state string }{
		"other arguments": {`{"n":3}`, asked.RequestState},
		"another state":   {`{"n":1}`, "ocx_AAAAAAAAAAAAAAAAAAAAAAAAAA"},
	} {
		if text := mcptest.TextOf(t, call(test.args, test.state, yes)); !strings.Contains(text, `"token_expired"`) {
			t.Errorf("%s: got %s, want token_expired", name, text)
		}
	}
	again := call(`{"n":1}`, asked.RequestState, sdk.InputResponseMap{"q7": yes["q1"]})
	if !again.NeedsInput() || again.RequestState == asked.RequestState {
		t.Fatalf("without the answer: got %+v, want the same request with another state", again)
	}
	if text := mcptest.TextOf(t, call(`{"n":1}`, again.RequestState, yes)); text != "accept yes" {
		t.Errorf("got %s, want accept yes", text)
	}
	if text := mcptest.TextOf(t, call(`{"n":1}`, again.RequestState, yes)); !strings.Contains(text, `"token_expired"`) {
		t.Errorf("the state of a call that has ended: got %s, want token_expired", text)
	}
	asked = call(`{"n":1,"o":{"b":2,"a":[1]}}`, "", nil)
	if text := mcptest.TextOf(t, call(`{ "o": {"a": [1], "b": 2}, "n": 1 }`, asked.RequestState, yes)); text != "accept yes" {
		t.Errorf("the same arguments, written otherwise: got %s, want accept yes", text)
	}
	no := sdk.InputResponseMap{"q1": &sdk.ElicitResult{Action: "decline"}}
	if text := mcptest.TextOf(t, call(`{"n":2}`, other.RequestState, no)); text != "decline <nil>" {
		t.Errorf("got %s, want decline", text)
	}
}

// TestEndedWithoutClient: a call that ends while its client is asked counts no longer as one in progress, although the client never repeats
// its request.
func TestEndedWithoutClient(t *testing.T) {
	t.Parallel()
	upstream := newUpstream(t, "a", false)
	s := serve(t, func(o *mcp.Options) {
		withUpstreams(t, upstream)(o)
		o.Grace = time.Hour
	})
	_, o := capableClient("ann")
	o.MultiRoundTrip = &sdk.MultiRoundTripOptions{Disabled: true}
	c := connectHTTP(t, s.http(t, reader), statelessVersion, o)
	asked, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "a_ask", Arguments: json.RawMessage(`{}`)})
	if err != nil || !asked.NeedsInput() {
		t.Fatalf("got %+v, %v, want a request for input", asked, err)
	}
	upstream.source.Close() // which ends the call
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		s.Drain()
	}()
	select {
	case <-idle:
	case <-time.After(time.Minute):
		t.Error("the call is still in progress")
	}
}
