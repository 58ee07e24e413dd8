package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
)

// rawClient speaks MCP over HTTP without the SDK, and returns whole responses.
type rawClient struct {
	url, query string
	version    string
	session    string // "" without one
	token      string // "" without one
	http       *http.Client
}

const statefulVersion, statelessVersion = protocol.Stateful, protocol.Stateless

// newRawClient returns a client of a version of MCP, with a session if the version has sessions. initialize is the answer to its first
// message.
func newRawClient(t testing.TB, url, surface, version string) (c *rawClient, initialize string) {
	t.Helper()
	return newRawClientWith(t, url, surface, version, "")
}

// newRawClientWith is newRawClient with a token; "": none.
func newRawClientWith(t testing.TB, url, surface, version, token string) (c *rawClient, initialize string) {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c = &rawClient{url: url, query: "?surface=" + surface, token: token, http: &http.Client{Transport: transport, Timeout: mcptest.Patience}}
	if version >= statelessVersion {
		c.version = version
		return c, c.message(t, "server/discover", `{}`)
	}
	initialize = c.message(t, "initialize", `{"protocolVersion":"`+version+`","capabilities":{"roots":{"listChanged":true}},"clientInfo":{"name":"raw","version":"1"}}`)
	c.version = version
	c.message(t, "notifications/initialized", `{}`)
	t.Cleanup(func() { c.end(t) })
	return c, initialize
}

// message sends a message of the protocol and returns the whole response.
func (c *rawClient) message(t testing.TB, method, params string) string {
	t.Helper()
	message := map[string]any{"jsonrpc": "2.0", "method": method, "params": json.RawMessage(c.withMeta(t, params))}
	if !strings.HasPrefix(method, "notifications/") {
		message["id"] = 7
	}
	body, err := json.Marshal(message)
	if err != nil {
		t.Fatalf("%v: %s", err, params)
	}
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	if c.version != "" {
		header.Set("Mcp-Protocol-Version", c.version)
	}
	if c.version >= statelessVersion {
		header.Set("Mcp-Method", method)
		var entry struct{ Name, URI string }
		_ = json.Unmarshal([]byte(params), &entry) // other params have no name
		if entry.Name+entry.URI != "" {
			header.Set("Mcp-Name", entry.Name+entry.URI)
		}
	}
	return c.send(t, http.MethodPost, c.url+c.query, header, body)
}

// withMeta adds the _meta that a client without a session sends in each request.
func (c *rawClient) withMeta(t testing.TB, params string) string {
	t.Helper()
	if c.version < statelessVersion {
		return params
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(params), &object); err != nil {
		t.Fatalf("%v: %s", err, params)
	}
	object["_meta"] = json.RawMessage(`{"io.modelcontextprotocol/protocolVersion":"` + c.version +
		`","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"}}`)
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// send makes a request and returns the response's status, headers and body.
func (c *rawClient) send(t testing.TB, method, url string, header http.Header, body []byte) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), mcptest.Patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(r.Header, header)
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, body, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, body, err)
	}
	if id := response.Header.Get("Mcp-Session-Id"); id != "" {
		c.session = id
	}
	var whole strings.Builder
	whole.WriteString(response.Status + "\n")
	for _, name := range slices.Sorted(maps.Keys(response.Header)) {
		whole.WriteString(name + ": " + strings.Join(response.Header[name], ", ") + "\n")
	}
	return whole.String() + "\n" + string(text)
}

func (c *rawClient) end(t testing.TB) {
	if c.session != "" {
		c.send(t, http.MethodDelete, c.url, http.Header{"Mcp-Protocol-Version": {c.version}}, nil)
	}
}

// volatile matches what differs between equal answers: times, tokens, ids and sizes that depend on them, and the totals of all runs that an
// administrator of all functions gets, because the worlds do not share their runs.
var volatile = regexp.MustCompile(`(?m)^Date: .*$|^Content-Length: .*$|^Mcp-Session-Id: .*$|^id: .*$|\\?"ms\\?":\d+|oc1_[\w-]+|run_[a-z2-7]{26}|oca_[\w-]+|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|\\?"lastHour\\?":\{.*?\]\}|\\?"(usage|session)\\?":\{\\?"tokens\\?":\d+`)

// withoutVolatile returns an answer with all matches of volatile replaced.
func withoutVolatile(answer string) string { return volatile.ReplaceAllString(answer, "~") }

// call calls a tool.
func (c *rawClient) call(t testing.TB, tool, args string) string {
	t.Helper()
	if !json.Valid([]byte(args)) {
		t.Fatalf("the path is not JSON: %s %s", tool, args)
	}
	text, err := json.Marshal(map[string]any{"name": tool, "arguments": json.RawMessage(args)})
	if err != nil {
		t.Fatal(err)
	}
	return c.message(t, "tools/call", string(text))
}

// elapsed returns how long a call takes.
func (c *rawClient) elapsed(t testing.TB, tool, args string) time.Duration {
	t.Helper()
	began := time.Now()
	c.call(t, tool, args)
	return time.Since(began)
}
