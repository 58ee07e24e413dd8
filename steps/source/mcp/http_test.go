package mcp_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/porttest"
	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// resourceCounts are the numbers of goroutines and, if the system lists them, open files.
type resourceCounts struct{ goroutines, files int }

func countResources() resourceCounts {
	c := resourceCounts{goroutines: runtime.NumGoroutine()}
	if entries, err := os.ReadDir("/proc/self/fd"); err == nil {
		c.files = len(entries)
	}
	return c
}

// awaitResources waits until the counts are about the same as before. Other connections of the process may come and go, but only a few.
func awaitResources(t *testing.T, before resourceCounts) {
	t.Helper()
	const slack = 12
	var now resourceCounts
	if !poll(func() bool {
		now = countResources()
		return now.goroutines <= before.goroutines+slack && now.files <= before.files+slack
	}) {
		t.Fatalf("the resources were not released: now %+v, before %+v", now, before)
	}
}

// switchedHandler wraps the good server with a handler that a test can change while it runs.
type switchedHandler struct {
	next   http.Handler
	before atomic.Pointer[func(w http.ResponseWriter, r *http.Request, body string) bool] // returns true if it has answered
	mu     sync.Mutex
	seen   []http.Header

	greetings atomic.Int32
}

func newSwitchedHandler(t testing.TB, o *sdk.StreamableHTTPOptions) *switchedHandler {
	return &switchedHandler{next: httpServer(goodServer(testEnd(t)), o)}
}

func (f *switchedHandler) set(before func(w http.ResponseWriter, r *http.Request, body string) bool) {
	f.before.Store(&before)
}

func (f *switchedHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f.mu.Lock()
	f.seen = append(f.seen, r.Header.Clone())
	f.mu.Unlock()
	if method := gjson.Get(string(body), "method").Str; method == "initialize" || method == "server/discover" {
		f.greetings.Add(1)
	}
	if before := f.before.Load(); before != nil && (*before)(w, r, string(body)) {
		return
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	f.next.ServeHTTP(w, r)
}

// onCalls lets a test answer tool calls.
func onCalls(answer func(w http.ResponseWriter, id string)) func(http.ResponseWriter, *http.Request, string) bool {
	return func(w http.ResponseWriter, _ *http.Request, body string) bool {
		if gjson.Get(body, "method").Str != "tools/call" {
			return false
		}
		answer(w, gjson.Get(body, "id").Raw)
		return true
	}
}

func TestHeadersAndRefusals(t *testing.T) {
	t.Parallel()
	f := newSwitchedHandler(t, nil)
	f.set(func(w http.ResponseWriter, r *http.Request, _ string) bool {
		if r.Header.Get("Authorization") != "Bearer hidden123" {
			http.Error(w, "no", http.StatusUnauthorized)
			return true
		}
		return false
	})
	url := listen(t, f)
	s := openSource(t, &mcpsource.Options{Name: "shelf", URL: url + "/?api_key=hidden456",
		Headers: map[string]string{"Authorization": "Bearer hidden789"}})
	status := await(t, s, steps.StateRetrying)
	if status.Error.Code != fault.Denied || !strings.Contains(status.Error.Message, "onecall auth login shelf") ||
		strings.Contains(status.Error.Message, "hidden") {
		t.Errorf("got %v, want denied with the login command and no secret", status.Error)
	}
	if wait := time.Until(status.Retry); wait < time.Minute/2 {
		t.Errorf("the next start is in %v, want a longer wait", wait)
	}
	good := openReady(t, &mcpsource.Options{Name: "shelf", URL: url, Headers: map[string]string{"Authorization": "Bearer hidden123",
		"Accept": "text/x-mine"}})
	if got := mustCall(t, good, "shelf.put", `{"name":"a"}`); got != `"put"` {
		t.Errorf("the call got %s, want put", got)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.seen {
		if h.Get("Accept") == "text/x-mine" {
			t.Error("a configured header replaced a header of the protocol")
		}
	}
}

// Headers contain secrets, so a redirect to another host does not receive them.
func TestHeadersStayWithHost(t *testing.T) {
	t.Parallel()
	var leaked atomic.Bool
	other := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaked.Store(leaked.Load() || r.Header.Get("X-Key") != "")
		http.Error(w, "no", http.StatusTeapot)
	}))
	url := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other, http.StatusTemporaryRedirect)
	}))
	s := openSource(t, &mcpsource.Options{Name: "shelf", URL: url, Headers: map[string]string{"X-Key": "hidden123"}})
	if status := await(t, s, steps.StateRetrying); status.Error.Code != fault.Unavailable {
		t.Errorf("got %v, want unavailable", status.Error)
	}
	if leaked.Load() {
		t.Error("another host received the configured headers")
	}
}

// TestRedirect: a server that moves all requests to another path is used there, in both eras of the protocol.
func TestRedirect(t *testing.T) {
	t.Parallel()
	for _, version := range []string{protocol.Stateful, protocol.Stateless} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			server := httpServer(goodServer(testEnd(t)), nil)
			url := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/mcp/" {
					http.Redirect(w, r, "/mcp/", http.StatusPermanentRedirect)
					return
				}
				server.ServeHTTP(w, r)
			}))
			s := openReady(t, &mcpsource.Options{Name: "shelf", URL: url + "/mcp", Protocol: version})
			for range 2 {
				if got := mustCall(t, s, "shelf.echo", `{"a":1.50}`); got != `{"a":1.50}` {
					t.Errorf("got %s, want {\"a\":1.50}", got)
				}
			}
		})
	}
}

// TestRedirectToOtherHost: what a call sends is not sent to another host, even if the greeting was answered there.
func TestRedirectToOtherHost(t *testing.T) {
	t.Parallel()
	other := strings.Replace(listen(t, httpServer(goodServer(testEnd(t)), nil)), "127.0.0.1", "localhost", 1)
	url := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other, http.StatusPermanentRedirect)
	}))
	s := openSource(t, &mcpsource.Options{Name: "shelf", URL: url})
	if status := await(t, s, steps.StateRetrying); !strings.Contains(status.Error.Message, "write the address to which it redirects") {
		t.Errorf("got %v, want the advice to write the other address", status.Error)
	}
}

func TestUnreachableServer(t *testing.T) {
	t.Parallel()
	address := "127.0.0.1:" + porttest.Reserve(t)
	s := openSource(t, &mcpsource.Options{Name: "shelf", URL: "http://" + address + "/secret-path"})
	status := await(t, s, steps.StateRetrying)
	if status.Error.Code != fault.Unavailable || !strings.Contains(status.Error.Message, "refused") ||
		strings.Contains(status.Error.Message, "secret-path") {
		t.Errorf("got %v, want unavailable without the path", status.Error)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: httpServer(goodServer(testEnd(t)), nil)}
	go func() { _ = server.Serve(listener) }()
	defer func() { _ = server.Close() }()
	await(t, s, steps.StateReady) // its functions appear when it is ready
	if len(s.Functions()) == 0 {
		t.Error("a ready source has no functions")
	}
}

// A server that has lost the session has not carried out the call, so the call is made in a new session.
func TestSessionExpired(t *testing.T) {
	t.Parallel()
	f := newSwitchedHandler(t, nil)
	s := openReady(t, &mcpsource.Options{Name: "shelf", URL: listen(t, f), Protocol: protocol.Stateful})
	var once atomic.Bool
	expired := onCalls(func(w http.ResponseWriter, _ string) { http.Error(w, "session not found", http.StatusNotFound) })
	f.set(func(w http.ResponseWriter, r *http.Request, body string) bool {
		return gjson.Get(body, "method").Str == "tools/call" && !once.Swap(true) && expired(w, r, body)
	})
	if got := mustCall(t, s, "shelf.put", `{"name":"a"}`); got != `"put"` || !once.Load() {
		t.Errorf("the call got %s, want put", got)
	}
}

// An unusable answer fails only its own call, and the session continues.
func TestUnusableAnswers(t *testing.T) {
	t.Parallel()
	answer := func(kind, format string) func(w http.ResponseWriter, id string) {
		return func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Type", kind)
			fmt.Fprint(w, strings.ReplaceAll(format, "ID", id))
		}
	}
	big := strings.Repeat("x", 2<<20)
	status := func(code int, body string) func(w http.ResponseWriter, id string) {
		return func(w http.ResponseWriter, _ string) {
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		}
	}
	tests := []struct {
		name    string
		answer  func(w http.ResponseWriter, id string)
		code    fault.Code
		outcome fault.Outcome
		want    string
	}{
		{"too long", answer("application/json", `{"result":{"content":[{"type":"text","text":"`+big+`"}]},"id":ID,"jsonrpc":"2.0"}`), fault.LimitExceeded, fault.SentUnknown, "limits.maxResultBytes"},
		{"event too long", answer("text/event-stream", "event: message\ndata: {\"result\":{\"content\":[{\"type\":\"text\",\"text\":\""+big+"\"}]},\"id\":ID,\"jsonrpc\":\"2.0\"}\n\n"), fault.LimitExceeded, fault.SentUnknown, "limits.maxResultBytes"},
		{"not JSON", answer("application/json", `{"result":`), fault.FunctionFailed, fault.SentUnknown, "not JSON"},
		{"HTML", answer("text/html", `<html>`), fault.FunctionFailed, fault.SentUnknown, "HTTP status 200"},
		{"half", func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Length", "1000")
			answer("application/json", `{"jsonrpc"`)(w, id)
		}, fault.Unavailable, fault.SentUnknown, "not known"},
		{"ending stream", answer("text/event-stream", ": nothing\n\n"), fault.Unavailable, fault.SentUnknown, "not known"},
		{"stream of garbage", answer("text/event-stream", "garbage\ndata: {\n\n"), fault.Unavailable, fault.SentUnknown, "not known"},
		{"400", status(400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"bad header"}}`), fault.FunctionFailed, "", "bad header"},
		{"413", status(413, "too large"), fault.FunctionFailed, "", "413"},
		{"502", status(502, ""), fault.Unavailable, fault.SentUnknown, "Bad Gateway"},
		{"429", status(429, ""), fault.Unavailable, fault.NotSent, "Too Many Requests"},
		{"an error", answer("application/json", `{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"no such name","data":{"a": 1}}}`), fault.BadArguments, "", "no such name"},
		{"another error", answer("application/json", `{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"broken"}}`), fault.FunctionFailed, "", "broken (error -32000)"},
		{"input", answer("application/json", `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create"}}}}`), fault.NotSupported, "", "further input"},
		{"deep", answer("application/json", `{"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":`+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)+`}}`), "", "", ""},
	}
	f := newSwitchedHandler(t, &sdk.StreamableHTTPOptions{})
	s := openReady(t, &mcpsource.Options{Name: "shelf", URL: listen(t, f), MaxMessageBytes: 1 << 20, Protocol: protocol.Stateful})
	for _, test := range tests {
		f.set(onCalls(test.answer))
		result, err := function(t, s, "shelf.put").Call(t.Context(), []byte(`{"name":"a"}`))
		got, _ := fault.As(err)
		switch {
		case test.code == "" && err != nil:
			t.Errorf("%s: %v, want success", test.name, err)
		case test.code != "" && (got == nil || got.Code != test.code || got.Outcome != test.outcome || !strings.Contains(got.Message, test.want)):
			t.Errorf("%s: got %.100s, %+v, want %s %q with %q", test.name, result, got, test.code, test.outcome, test.want)
		}
	}
	f.set(func(http.ResponseWriter, *http.Request, string) bool { return false })
	mustCall(t, s, "shelf.put", `{"name":"a"}`)
	if f.greetings.Load() != 2 { // the 400 may have been about the session
		t.Errorf("%d sessions were opened, want 2", f.greetings.Load())
	}
}

// Calls reuse the connections of earlier calls.
func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	var opened atomic.Int32
	server := httptest.NewUnstartedServer(httpServer(goodServer(nil), &sdk.StreamableHTTPOptions{Stateless: true}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	s := openSource(t, &mcpsource.Options{Name: "shelf", URL: server.URL})
	t.Cleanup(server.CloseClientConnections)
	await(t, s, steps.StateReady)
	for range 1000 {
		mustCall(t, s, "shelf.get", `{"name":"a"}`)
	}
	if n := opened.Load(); n > 200 { // on a busy machine some streams end late
		t.Errorf("%d connections were opened for 1000 successive calls, want at most 200", n)
	}
}

func TestTransportErrors(t *testing.T) {
	t.Parallel()
	f := newSwitchedHandler(t, &sdk.StreamableHTTPOptions{Stateless: true})
	var failing atomic.Pointer[error]
	client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if err := failing.Load(); err != nil && *err != nil {
			return nil, *err
		}
		return http.DefaultTransport.RoundTrip(r)
	})}
	s := openSource(t, &mcpsource.Options{Name: "shelf", URL: listen(t, f), HTTPClient: client})
	for _, test := range []struct {
		err     error
		code    fault.Code
		outcome fault.Outcome
	}{
		{&net.OpError{Op: "dial", Err: io.ErrNoProgress}, fault.Unavailable, fault.NotSent},
		{&net.OpError{Op: "read", Err: io.ErrNoProgress}, fault.Unavailable, fault.SentUnknown},
		{io.ErrUnexpectedEOF, fault.Unavailable, fault.SentUnknown},
		{fault.New(fault.Denied, "the host is not allowed"), fault.Denied, fault.NotSent},
	} {
		await(t, s, steps.StateReady)
		before := f.greetings.Load()
		failing.Store(&test.err)
		if got := mustFail(t.Context(), t, s, "shelf.put", `{"name":"a"}`, test.code); got.Outcome != test.outcome {
			t.Errorf("%v: got outcome %q, want %q", test.err, got.Outcome, test.outcome)
		}
		failing.Store(nil)
		if test.code == fault.Unavailable && test.outcome == fault.NotSent {
			until(t, s, func() bool { return f.greetings.Load() > before }) // an unreachable server is greeted again
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := function(t, s, "shelf.put").Call(ctx, []byte(`{"name":"a"}`)); fault.CodeOf(err) != fault.Cancelled {
		t.Errorf("a call with a cancelled context: got %v, want cancelled", err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The data of a JSON-RPC error contains no secret either.
func TestErrorDataIsRedacted(t *testing.T) {
	t.Parallel()
	const key = "Zq7Wv9Kx3Rt5Yp1Ns8Md2Lb4Hc6Jg0Fa"
	f := newSwitchedHandler(t, nil)
	s := openReady(t, &mcpsource.Options{Name: "shelf", URL: listen(t, f), Headers: map[string]string{"X-Key": key}})
	f.set(onCalls(func(w http.ResponseWriter, id string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no %s","data":{"key":%q}}}`, id, key, key)
	}))
	got := mustFail(t.Context(), t, s, "shelf.put", `{"name":"a"}`, fault.FunctionFailed)
	if strings.Contains(got.Message, key[:6]) || strings.Contains(string(got.Body), key[:6]) ||
		gjson.GetBytes(got.Body, "key").Str != secret.Redacted {
		t.Errorf("the error data is not redacted: %s, %s", got.Message, got.Body)
	}
}
