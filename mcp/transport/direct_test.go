package transport_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
)

// inSession begins a session with an Accept header, and returns a function that posts messages in it.
func inSession(t *testing.T, s *testServer, accept string) func(body string) (status int, text string) {
	url, headers := s.inMemory(t, &transport.Access{Anyone: *anyone}), mcptest.Header{"Accept": accept}
	begun, _ := mcptest.Send(t, "POST", url, mcptest.Hello, headers)
	headers["Mcp-Session-Id"], headers["Mcp-Protocol-Version"] = begun.Header.Get("Mcp-Session-Id"), "2025-11-25"
	return func(body string) (int, string) {
		r, text := mcptest.Send(t, "POST", url, body, headers)
		return r.StatusCode, text
	}
}

const accepted = "application/json, text/event-stream"

// TestRepeatedRequestID: a call that is repeated while it runs is not made again.
func TestRepeatedRequestID(t *testing.T) {
	t.Parallel()
	const slow = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"chain","arguments":{"steps":[{"fn":"shop.slow"}]}}}`
	s := serve(t, nil)
	post := inSession(t, s, accepted)
	first := make(chan string, 1)
	send := func() {
		_, text := post(slow)
		first <- text
	}
	go send()
	<-s.shop.started
	if status, again := post(slow); status != http.StatusBadRequest ||
		!strings.Contains(again, `"id":2,"error":{"code":-32600,"message":"a request with this id is under way`) {
		t.Errorf("the repeated request: status %d, want 400: %s", status, again)
	}
	s.shop.finish <- struct{}{}
	if text := <-first; !strings.Contains(text, "late") {
		t.Errorf("the first call: %s, want late", text)
	}
	go send() // it has ended: its id is free
	<-s.shop.started
	s.shop.finish <- struct{}{}
	if text := <-first; !strings.Contains(text, "late") {
		t.Errorf("a later call with the same id: %s, want late", text)
	}
}

// TestNoSessionTimeout: a negative timeout means that sessions do not end.
func TestNoSessionTimeout(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *transport.Options) { o.SessionTimeout = -time.Second })
	post := inSession(t, s, accepted)
	if status, text := post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"chain","arguments":{}}}`); status != http.StatusOK || s.Stats().Sessions != 1 {
		t.Errorf("status %d, %d sessions, want 200 and 1: %s", status, s.Stats().Sessions, text)
	}
}
