package transport_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
)

// statelessCall returns a call of a client without sessions, with its headers.
func statelessCall(id, method, params string) (body string, headers mcptest.Header) {
	name := gjson.Get("{"+params+"}", "name").Str
	if params != "" {
		params += ","
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params +
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}}}`,
		mcptest.Header{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name}
}

// TestShutdownAnswers503: once a server shuts down, a request that any replica could serve is answered 503 before any work is done, and is
// not counted. Messages for running calls are admitted, and in a session of this server the tools answer.
func TestShutdownAnswers503(t *testing.T) {
	t.Parallel()
	const chain = `"name":"chain","arguments":{"steps":[{"fn":"shop.echo","args":{"text":"x"}}]}`
	for name, test := range map[string]struct {
		session bool // the client has a session
		refused bool // its requests are answered 503
	}{
		"without sessions": {false, true},
		"with a session":   {true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, func(o *transport.Options) { o.Grace = time.Minute })
				url := s.inMemory(t, &transport.Access{Anyone: *anyone})
				headers, sessionHeaders := mcptest.Header{}, mcptest.Header{"Mcp-Protocol-Version": "2025-11-25"}
				if test.session {
					begun, _ := mcptest.Send(t, "POST", url, mcptest.Hello, nil)
					sessionHeaders["Mcp-Session-Id"] = begun.Header.Get("Mcp-Session-Id")
				}
				send := func(id, method, params string) (*http.Response, string) {
					body := `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `}}`
					headers = sessionHeaders
					if !test.session {
						body, headers = statelessCall(id, method, params)
					}
					return mcptest.Send(t, "POST", url, body, headers)
				}
				var running sync.WaitGroup
				running.Go(func() {
					if r, text := send(`"slow"`, "tools/call", `"name":"chain","arguments":{"steps":[{"fn":"shop.slow"}]}`); r.StatusCode != 200 ||
						!strings.Contains(text, "cancelled") {
						t.Errorf("the call that was running: %d %s, want 200 and cancelled", r.StatusCode, text)
					}
				})
				<-s.shop.started
				s.shutdown()
				polltest.Until(t, "the server is closing", func() bool { return s.Stats().Closing })
				before := s.shop.calls.Load()
				r, text := send("7", "tools/call", chain)
				if test.refused {
					wantShutdown503(t, r, text, "7")
					r, text = send(`"b"`, "tools/list", "")
					wantShutdown503(t, r, text, `"b"`)
					r, text = mcptest.Send(t, "GET", url, "", headers)
					wantShutdown503(t, r, text, "null")
					if headers["Mcp-Method"] != "" {
						headers["Mcp-Method"] = "notifications/cancelled"
					}
					if r, text := mcptest.Send(t, "POST", url, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`,
						headers); r.StatusCode != http.StatusAccepted {
						t.Errorf("a notification: %d %s, want 202", r.StatusCode, text)
					}
				} else {
					if r.StatusCode != 200 || !strings.Contains(text, `\"unavailable\"`) ||
						!strings.Contains(text, "the server is shutting down: nothing of this call was run") {
						t.Errorf("a call in the session: %d %s, want 200, unavailable, and that nothing was run", r.StatusCode, text)
					}
					if r, text = send("8", "tools/list", ""); r.StatusCode != 200 {
						t.Errorf("a list in the session: %d %s, want 200", r.StatusCode, text)
					}
				}
				r, text = mcptest.Send(t, "POST", url, mcptest.Hello, nil)
				wantShutdown503(t, r, text, gjson.Get(mcptest.Hello, "id").Raw)
				if now := s.shop.calls.Load(); now != before {
					t.Errorf("%d calls were run during the shutdown, want none", now-before)
				}
				if r, text := mcptest.Send(t, "GET", strings.TrimSuffix(url, transport.Path)+"/readyz", "",
					nil); r.StatusCode != http.StatusServiceUnavailable {
					t.Errorf("/readyz: %d %s, want 503", r.StatusCode, text)
				}
				if s.Stats().Calls != 1 {
					t.Errorf("%d calls are running, want 1", s.Stats().Calls)
				}
				running.Wait() // the running call lasts for as long as grace allows
			})
		})
	}
}

func wantShutdown503(t *testing.T, r *http.Response, text, id string) {
	t.Helper()
	m := gjson.Parse(text)
	if r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") != "1" || !r.Close ||
		r.Header.Get("Content-Type") != "application/json" ||
		m.Get("jsonrpc").Str != "2.0" || m.Get("id").Raw != id || m.Get("error.code").Int() != -32000 ||
		!strings.HasPrefix(m.Get("error.message").Str, "the server is shutting down: ") {
		t.Errorf("got %d %v %s, want 503, Retry-After 1, a connection that closes, and error -32000 for id %s", r.StatusCode, r.Header, text, id)
	}
}

// TestOpenConnectionDuringShutdown: a request on a connection that was made before the shutdown is answered.
func TestOpenConnectionDuringShutdown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, nil)
		url := s.inMemory(t, &transport.Access{Anyone: *anyone})
		body, headers := statelessCall("1", "tools/list", "")
		if r, text := mcptest.Send(t, "POST", url, body, headers); r.StatusCode != http.StatusOK {
			t.Fatalf("status %d, want 200: %s", r.StatusCode, text)
		}
		headers["Content-Type"] = "application/json"
		conn := dial(t, url, "POST", transport.Path, headers, len(body)) // this connection is accepted before the next one
		if r, text := mcptest.Send(t, "GET", strings.TrimSuffix(url, transport.Path)+"/healthz", "",
			mcptest.Header{"Connection": "close"}); r.StatusCode != http.StatusOK {
			t.Fatalf("status %d, want 200: %s", r.StatusCode, text)
		}
		silent := mcptest.Dial(t, strings.TrimSuffix(strings.TrimPrefix(url, "http://"), transport.Path))
		if r, text := mcptest.Send(t, "GET", strings.TrimSuffix(url, transport.Path)+"/healthz", "",
			mcptest.Header{"Connection": "close"}); r.StatusCode != http.StatusOK {
			t.Fatalf("status %d, want 200: %s", r.StatusCode, text)
		}
		s.shutdown()
		polltest.Until(t, "the server is closing", func() bool { return s.Stats().Closing })
		for _, text := range []string{body, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"} {
			if _, err := io.WriteString(conn, text); err != nil {
				t.Fatal(err)
			}
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || answer.StatusCode != http.StatusServiceUnavailable {
				t.Fatalf("a request on an open connection: %v %v, want 503", answer, err)
			}
			answer.Body.Close()
			conn = silent
		}
	})
}
