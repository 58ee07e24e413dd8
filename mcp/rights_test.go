package mcp_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// withToken returns an HTTP client that sends a token.
func withToken(token string) *http.Client {
	return &http.Client{Transport: mcptest.Header{"Authorization": "Bearer " + token}}
}

// connectAs connects a client with a token.
func connectAs(t testing.TB, url, token, version string) *sdk.ClientSession {
	t.Helper()
	return mcptest.Connect(t, &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: withToken(token)}, nil, version)
}

// TestCallerLimits: a call beyond a limit is refused with advice, and earlier calls continue.
func TestCallerLimits(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *mcp.Options) { o.CallerCalls = 1 })
	url := s.serveAs(t, &transport.Access{Callers: mcptest.Staff})
	ann := connectAs(t, url, "ann", "2025-11-25")
	ctx, stop := context.WithCancel(t.Context())
	slow := make(chan error, 1)
	go func() {
		_, err := ann.CallTool(ctx, &sdk.CallToolParams{Name: "chain", Arguments: json.RawMessage(`{"steps":[{"fn":"shop.slow"}]}`)})
		slow <- err
	}()
	<-s.shop.started
	if text, failed := mcptest.Ask(t, ann, "info", `{}`); !failed || gjson.Get(text, "error.code").Str != "busy" {
		t.Errorf("a second call: got %s, want busy", text)
	}
	if text, failed := mcptest.Ask(t, connectAs(t, url, "eve", "2025-11-25"), "info", `{}`); failed {
		t.Errorf("another caller: %s, want success", text)
	}
	stop()
	<-slow
	<-s.shop.ended
}

// TestRightsChange: a caller whose rights have changed must begin a new session, one whose token was revoked is refused, and the streams
// of both end.
func TestRightsChange(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	url := s.serveAs(t, &transport.Access{Callers: mcptest.Staff})
	stream := func(token, id string) chan error {
		r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Accept": "text/event-stream", "Authorization": "Bearer " + token, "Mcp-Session-Id": id} {
			r.Header.Set(name, value)
		}
		response, err := http.DefaultTransport.RoundTrip(r)
		if err != nil || response.StatusCode != 200 {
			t.Fatalf("got %v, %v; want status 200", response, err)
		}
		t.Cleanup(func() { response.Body.Close() })
		ended := make(chan error, 1)
		go func() {
			_, err := io.Copy(io.Discard, response.Body)
			ended <- err
		}()
		return ended
	}
	begin := func(token string) string {
		r, _ := mcptest.Send(t, "POST", url, mcptest.Hello, mcptest.Header{"Authorization": "Bearer " + token})
		return r.Header.Get("Mcp-Session-Id")
	}
	ids, ended := map[string]string{}, map[string]chan error{}
	for _, token := range []string{"ann", "bob", "eve"} {
		ids[token] = begin(token)
		ended[token] = stream(token, ids[token])
	}
	s.SetAccess(t, &transport.Access{Callers: mcptest.Callers{"ann": mcptest.Staff["ann"],
		"bob": {ID: "token:bob", Rights: steps.Rights{Tier: steps.TierAdmin}}}})
	<-ended["bob"]
	<-ended["eve"]
	select {
	case err := <-ended["ann"]:
		t.Errorf("the stream of ann, whose rights are unchanged, ended: %v", err)
	default:
	}
	for token, status := range map[string]int{"ann": 200, "bob": 404, "eve": 401} {
		r, body := mcptest.Send(t, "POST", url, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`,
			mcptest.Header{"Authorization": "Bearer " + token, "Mcp-Session-Id": ids[token]})
		if r.StatusCode != status {
			t.Errorf("%s: status %d, want %d: %s", token, r.StatusCode, status, body)
		}
	}
	s.Close() // ends ann's stream
}

// TestStreamExpires: a stream does not outlive the token that it was opened with.
func TestStreamExpires(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	callers := mcptest.Callers{"ann": mcptest.Staff["ann"]}
	url := s.serveAs(t, &transport.Access{Callers: callers})
	r, _ := mcptest.Send(t, "POST", url, mcptest.Hello, mcptest.Header{"Authorization": "Bearer ann"})
	expiring := *mcptest.Staff["ann"]
	expiring.Expires = time.Now().Add(time.Second)
	s.SetAccess(t, &transport.Access{Callers: mcptest.Callers{"ann": &expiring}})
	// Send reads the stream to its end, when the token expires. On a very slow machine the token may have expired by then.
	r, body := mcptest.Send(t, "GET", url, "", mcptest.Header{"Authorization": "Bearer ann", "Mcp-Session-Id": r.Header.Get("Mcp-Session-Id")})
	if late := time.Since(expiring.Expires); r.StatusCode != 200 && r.StatusCode != 401 || late < 0 {
		t.Errorf("status %d, the stream ended %v after the token expired: %s, want 200 or 401, not before it", r.StatusCode, late, body)
	}
	if r, _ := mcptest.Send(t, "POST", url, mcptest.Hello, mcptest.Header{"Authorization": "Bearer ann"}); r.StatusCode != 401 {
		t.Errorf("a session with the expired token: status %d, want 401", r.StatusCode)
	}
}
