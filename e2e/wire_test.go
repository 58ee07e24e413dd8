//go:build e2e && unix

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

const (
	statefulVersion  = "2025-11-25"
	statelessVersion = "2026-07-28"
)

// rawClient is an HTTP client of MCP that can send requests that no client library would send.
type rawClient struct {
	url     string
	client  *http.Client
	version string
	session string // the id of the session; "": the client has none
}

// reply is the server's response to one request.
type reply struct {
	status   int
	header   http.Header
	body     []byte
	messages []gjson.Result // the JSON-RPC messages in the body
}

// answer returns the message with a result or an error, if there is one.
func (r *reply) answer() gjson.Result {
	for _, m := range r.messages {
		if m.Get("result").Exists() || m.Get("error").Exists() {
			return m
		}
	}
	return gjson.Result{}
}

// send sends one request, after change has altered it.
func (w *rawClient) send(t testing.TB, method string, body []byte, change func(*http.Request)) *reply {
	t.Helper()
	r, err := w.try(t, method, body, change)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (w *rawClient) request(t testing.TB, method string, body []byte) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, w.url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if w.version != "" {
		req.Header.Set("Mcp-Protocol-Version", w.version)
	}
	if w.session != "" {
		req.Header.Set("Mcp-Session-Id", w.session)
	}
	if w.version >= statelessVersion {
		req.Header.Set("Mcp-Method", gjson.GetBytes(body, "method").String())
		if name := gjson.GetBytes(body, "params.name"); name.Exists() {
			req.Header.Set("Mcp-Name", name.String())
		}
	}
	return req
}

func (w *rawClient) try(t testing.TB, method string, body []byte, change func(*http.Request)) (*reply, error) {
	t.Helper()
	req := w.request(t, method, body)
	if change != nil {
		change(req)
	}
	res, err := w.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	return &reply{status: res.StatusCode, header: res.Header, body: text, messages: messagesOf(res.Header, text)}, nil
}

// messagesOf returns the messages in a JSON body or a stream of events.
func messagesOf(h http.Header, body []byte) []gjson.Result {
	if !strings.HasPrefix(h.Get("Content-Type"), "text/event-stream") {
		if !gjson.ValidBytes(body) {
			return nil
		}
		return []gjson.Result{gjson.ParseBytes(body)}
	}
	var all []gjson.Result
	for line := range strings.Lines(string(body)) {
		if data, ok := strings.CutPrefix(line, "data:"); ok && gjson.Valid(data) {
			all = append(all, gjson.Parse(data))
		}
	}
	return all
}

// message returns a request, or a notification if id is empty. A stateless request also describes the client.
func (w *rawClient) message(t testing.TB, id, method string, params map[string]any) []byte {
	t.Helper()
	if params == nil {
		params = map[string]any{}
	}
	if w.version >= statelessVersion {
		meta, _ := params["_meta"].(map[string]any)
		if meta == nil {
			meta = map[string]any{}
			params["_meta"] = meta
		}
		meta["io.modelcontextprotocol/protocolVersion"] = w.version
		meta["io.modelcontextprotocol/clientCapabilities"] = map[string]any{}
		meta["io.modelcontextprotocol/clientInfo"] = map[string]any{"name": "wire", "version": "1"}
	}
	message := map[string]any{"jsonrpc": "2.0", "method": method, "params": params}
	if id != "" {
		message["id"] = json.RawMessage(id)
	}
	text, err := json.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// call makes a request that must succeed, and returns its result.
func (w *rawClient) call(t testing.TB, method string, params map[string]any) gjson.Result {
	t.Helper()
	r := w.send(t, http.MethodPost, w.message(t, "1", method, params), nil)
	result := r.answer().Get("result")
	if r.status != http.StatusOK || !result.Exists() {
		t.Fatalf("%s: got %d %s, want 200 with a result", method, r.status, r.body)
	}
	return result
}

// tool calls a tool and returns the text of its answer.
func (w *rawClient) tool(t testing.TB, name string, args any) (text string, failed bool) {
	t.Helper()
	result := w.call(t, "tools/call", map[string]any{"name": name, "arguments": args})
	if result.Get("content.#").Int() != 1 || result.Get("content.0.type").String() != "text" {
		t.Fatalf("%s: got %s, want one text", name, result.Raw)
	}
	return result.Get("content.0.text").String(), result.Get("isError").Bool()
}

// stateless returns a client of the version without sessions.
func stateless(t testing.TB, url string) *rawClient {
	return &rawClient{url: url, client: httpClient(t), version: statelessVersion}
}

// initialize is the first message of a client with a session.
const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
	`"clientInfo":{"name":"wire","version":"1"}}}`

// stateful returns a client with a session, which ends with the test.
func stateful(t testing.TB, url string) *rawClient {
	t.Helper()
	w := &rawClient{url: url, client: httpClient(t)}
	w.begin(t)
	t.Cleanup(func() { w.delete(t) })
	return w
}

// begin opens a session.
func (w *rawClient) begin(t testing.TB) {
	t.Helper()
	if err := w.open(t); err != nil {
		t.Fatal(err)
	}
}

func (w *rawClient) open(t testing.TB) error {
	t.Helper()
	w.version, w.session = "", ""
	r, err := w.try(t, http.MethodPost, []byte(initialize), nil)
	if err != nil {
		return err
	}
	w.version, w.session = statefulVersion, r.header.Get("Mcp-Session-Id")
	if r.status != http.StatusOK || w.session == "" || r.answer().Get("result.protocolVersion").String() != statefulVersion {
		return fmt.Errorf("initialize: %d %v %s", r.status, r.header, r.body)
	}
	if r, err = w.try(t, http.MethodPost, w.message(t, "", "notifications/initialized", nil), nil); err == nil &&
		r.status != http.StatusAccepted {
		err = fmt.Errorf("initialized: %d %s", r.status, r.body)
	}
	return err
}

// delete ends the session.
func (w *rawClient) delete(t testing.TB) {
	t.Helper()
	if err := w.end(); err != nil {
		t.Error(err)
	}
}

// end ends the session. It needs its own context: cleanups run after the test's context has ended.
func (w *rawClient) end() error {
	req, err := http.NewRequest(http.MethodDelete, w.url, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Mcp-Session-Id", w.session)
	req.Header.Set("Mcp-Protocol-Version", w.version)
	res, err := w.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("DELETE: %s", res.Status)
	}
	_, err = io.Copy(io.Discard, res.Body)
	return err
}
