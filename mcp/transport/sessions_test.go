package transport_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
)

// TestListenEndsWithRights: a stream that was opened by a message ends with its caller's rights, whatever the headers say.
func TestListenEndsWithRights(t *testing.T) {
	t.Parallel()
	for name, stateless := range map[string]bool{"2026-07-28": false, "2025-11-25": true} {
		s := serve(t, func(o *transport.Options) { o.Stateless = stateless })
		url := s.serveAs(t, &transport.Access{Callers: mcptest.Staff})
		body := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true}` +
			mcptest.StatelessMeta + `}}`
		r, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			"Authorization": "Bearer eve", "Mcp-Protocol-Version": name} {
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
		s.SetAccess(&transport.Access{Callers: mcptest.Callers{"ann": mcptest.Staff["ann"]}})
		<-ended
		response.Body.Close()
	}
}

// TestConcurrentSessionLimit: one caller gets a quarter of the sessions, even if it begins many at the same time.
func TestConcurrentSessionLimit(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *transport.Options) { o.MaxSessions = 20 })
	url := s.serveAs(t, &transport.Access{Callers: mcptest.Staff})
	var all sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for range 40 {
		all.Go(func() {
			r, _ := mcptest.Send(t, "POST", url, mcptest.Hello, mcptest.Header{"Authorization": "Bearer ann"})
			mu.Lock()
			defer mu.Unlock()
			statuses[r.StatusCode]++
		})
	}
	all.Wait()
	if statuses[200] != 5 || statuses[503] != 35 || s.Stats().Sessions != 5 {
		t.Errorf("statuses %v, %d sessions; want 5 sessions and 35 refusals", statuses, s.Stats().Sessions)
	}
}

// TestShutdown: running calls may end while no new ones begin, and those that do not end are canceled.
func TestShutdown(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"stdio", "http"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, func(o *transport.Options) { o.Grace = time.Minute })
				var client *sdk.ClientSession
				if by == "http" {
					url := s.inMemory(t, &transport.Access{Anyone: *anyone})
					client = mcptest.Connect(t, &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: mcptest.Header{}}}, nil,
						"2025-11-25")
				} else {
					client = mcptest.Stdio(t, nil, func(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
						ctx, s.shutdown = context.WithCancel(ctx)
						return s.ServeStdio(ctx, in, out, anyone)
					})
				}
				ended := make(chan struct{})
				began := time.Now()
				go func() {
					defer close(ended)
					text, failed := mcptest.Ask(t, client, "chain", `{"steps":[{"fn":"shop.slow"}]}`)
					if took := time.Since(began); !failed || gjson.Get(text, "error.code").Str != "cancelled" || took != time.Minute {
						t.Errorf("the running chain after %v: %s, want cancelled after 1m", took, text)
					}
				}()
				<-s.shop.started
				s.shutdown()
				synctest.Wait()
				if text, failed := mcptest.Ask(t, client, "info", `{}`); !failed || gjson.Get(text, "error.code").Str != "unavailable" {
					t.Errorf("a new call: %s, want unavailable", text)
				}
				<-ended
			})
		})
	}
}

// TestMissingSessionID: a client of a version with sessions that sends no id learns what is missing.
func TestMissingSessionID(t *testing.T) {
	t.Parallel()
	url := serve(t, nil).http(t, anyone)
	for _, method := range []string{"tools/list", "tools/call", "notifications/initialized"} {
		r, text := mcptest.Send(t, "POST", url, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"name":"info","arguments":{}}}`,
			mcptest.Header{"Mcp-Protocol-Version": "2025-11-25"})
		if r.StatusCode != http.StatusBadRequest || !strings.Contains(text, "Mcp-Session-Id is missing: begin with initialize") {
			t.Errorf("%s: %d %s, want 400: Mcp-Session-Id is missing", method, r.StatusCode, text)
		}
	}
}
