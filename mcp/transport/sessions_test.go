package transport

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
)

// TestListenEnds: a stream that was opened by a message ends with its caller's rights, whatever the headers say.
func TestListenEnds(t *testing.T) {
	t.Parallel()
	for name, stateless := range map[string]bool{"2026-07-28": false, "2025-11-25": true} {
		s := serve(t, func(o *Options) { o.Stateless = stateless })
		url := s.serveAs(t, &Access{Callers: mcptest.Staff})
		body := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true}` + mcptest.StatelessMeta + `}}`
		r, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer eve", "Mcp-Protocol-Version": name} {
			r.Header.Set(key, value)
		}
		if name == "2026-07-28" {
			r.Header.Set("Mcp-Method", "subscriptions/listen")
		}
		response, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = io.Copy(io.Discard, response.Body)
		}()
		s.SetAccess(&Access{Callers: mcptest.Callers{"ann": mcptest.Staff["ann"]}})
		<-ended
		response.Body.Close()
		mcptest.Until(func() bool { return !s.anyOpen() })
	}
}

// TestSessionsAtOnce: one caller gets a quarter of the sessions, even if it begins many at the same time.
func TestSessionsAtOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *Options) { o.MaxSessions = 20 })
	url := s.serveAs(t, &Access{Callers: mcptest.Staff})
	var all sync.WaitGroup
	var mu sync.Mutex
	began := map[int]int{}
	for range 40 {
		all.Go(func() {
			r, _ := mcptest.Send(t, "POST", url, mcptest.Hello, mcptest.Header{"Authorization": "Bearer ann"})
			mu.Lock()
			defer mu.Unlock()
			began[r.StatusCode]++
		})
	}
	all.Wait()
	if began[200] != 5 || began[503] != 35 || s.Stats().Sessions != 5 {
		t.Errorf("%v, %d sessions", began, s.Stats().Sessions)
	}
}

// TestShutdown: running calls may end, and those that do not are canceled.
func TestShutdown(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"stdio", "http"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil)
			client := s.stdio(t, anyone, nil)
			if transport == "http" {
				client = mcptest.Connect(t, &sdk.StreamableClientTransport{Endpoint: s.http(t, anyone)}, nil, "2025-11-25")
			}
			type answer struct {
				result *sdk.CallToolResult
				err    error
			}
			answers := make(chan answer, 1)
			go func() {
				result, err := client.CallTool(context.Background(), &sdk.CallToolParams{Name: "chain", Arguments: json.RawMessage(`{"steps":[{"fn":"shop.slow"}]}`)})
				answers <- answer{result, err}
			}()
			<-s.shop.started
			go s.calls.drain(50 * time.Millisecond)
			got := <-answers
			if got.err != nil {
				t.Fatal(got.err)
			}
			if text := mcptest.TextOf(t, got.result); !got.result.IsError || gjson.Get(text, "error.code").Str != "cancelled" {
				t.Errorf("the running chain: %s", text)
			}
			if text, failed := mcptest.Ask(t, client, "info", `{}`); !failed || gjson.Get(text, "error.code").Str != "unavailable" {
				t.Errorf("a new call: %s", text)
			}
		})
	}
}
