package mcptest

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// Hello begins a session.
const Hello = `{"jsonrpc":"2.0","id":1,"method":"initialize",` +
	`"params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// StatelessMeta is the member of params that describes a client without a session.
const StatelessMeta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}`

// Header are headers of requests. It is an http.RoundTripper that sets them.
type Header map[string]string

// RoundTrip implements http.RoundTripper.
func (h Header) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range h {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	return TransportTo(r.URL.Host).RoundTrip(r)
}

// Send makes a request and returns the response with its body, which is already read and closed.
func Send(t testing.TB, method, url, body string, headers Header) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range headers {
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Set(name, value)
	}
	response, err := TransportTo(r.URL.Host).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(text)
}

// BeginCall calls the chain tool in a new session, or without one, and returns a channel for the answer.
func BeginCall(t testing.TB, url, token, arguments string, stateless bool) <-chan string {
	t.Helper()
	headers, meta := Header{"Authorization": "Bearer " + token}, ""
	if stateless {
		meta = StatelessMeta
		headers["Mcp-Protocol-Version"], headers["Mcp-Method"], headers["Mcp-Name"] = "2026-07-28", "tools/call", "chain"
	} else {
		r, _ := Send(t, "POST", url, Hello, headers)
		headers["Mcp-Session-Id"] = r.Header.Get("Mcp-Session-Id")
	}
	answered := make(chan string, 1)
	go func() {
		call := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"chain","arguments":` + arguments + meta + "}}"
		_, body := Send(t, "POST", url, call, headers)
		answered <- body
	}()
	return answered
}
