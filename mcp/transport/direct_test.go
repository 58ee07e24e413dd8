package transport

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
)

// inSession begins a session with an Accept header, and returns a function that posts messages in it.
func inSession(s *testServer, accept string) func(body string) *httptest.ResponseRecorder {
	s.SetAccess(&Access{Anyone: *anyone})
	h, id := s.httpHandler(), ""
	post := func(body string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "http://127.0.0.1"+Path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", accept)
		if id != "" {
			r.Header.Set(sessionHeader, id)
			r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
		}
		h.ServeHTTP(w, r)
		return w
	}
	id = post(mcptest.Hello).Header().Get(sessionHeader)
	return post
}

// TestDirectOnce: a call that is repeated while it runs is not made again.
func TestDirectOnce(t *testing.T) {
	t.Parallel()
	const slow = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"chain","arguments":{"steps":[{"fn":"shop.slow"}]}}}`
	s := serve(t, nil)
	post := inSession(s, acceptHeader)
	first := make(chan string, 1)
	go func() { first <- post(slow).Body.String() }()
	<-s.shop.started
	if again := post(slow); again.Code != http.StatusBadRequest || !strings.Contains(again.Body.String(), `"id":2,"error":{"code":-32600,"message":"a request with this id is under way`) {
		t.Errorf("sent again: %d %s", again.Code, again.Body)
	}
	s.shop.enough <- struct{}{}
	if text := <-first; !strings.Contains(text, "late") {
		t.Error(text)
	}
	go func() { first <- post(slow).Body.String() }() // it has ended: its id is free
	<-s.shop.started
	s.shop.enough <- struct{}{}
	if text := <-first; !strings.Contains(text, "late") {
		t.Error(text)
	}
}

// TestNoSessionTimeout: a negative timeout means that sessions do not end.
func TestNoSessionTimeout(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *Options) { o.SessionTimeout = -time.Second })
	post := inSession(s, acceptHeader)
	if w := post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"chain","arguments":{}}}`); w.Code != http.StatusOK || s.Stats().Sessions != 1 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
