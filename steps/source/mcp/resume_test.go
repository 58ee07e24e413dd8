package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// breakingServer is a server whose answers are streams that break off after an event with an id, so that the client can request the rest.
type breakingServer struct {
	*switchedHandler
	writes  atomic.Int32 // calls that the server has received
	resumes atomic.Int32
}

func newBreaking(t *testing.T, resume func(w http.ResponseWriter)) *breakingServer {
	b := &breakingServer{switchedHandler: newSwitchedHandler(t, nil)}
	b.set(func(w http.ResponseWriter, r *http.Request, body string) bool {
		switch {
		case gjson.Get(body, "method").Str == "tools/call":
			b.writes.Add(1)
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "id: 7\nretry: 10\ndata: "+
				"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"working\"}}\n\n")
			return true
		case r.Header.Get("Last-Event-Id") != "":
			b.resumes.Add(1)
			resume(w)
			return true
		}
		return false
	})
	return b
}

// A call whose answer broke off is never made again, whatever the request for the rest returns. Only that call fails, and the session
// continues.
func TestFailedResume(t *testing.T) {
	t.Parallel()
	status := func(code int) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { w.WriteHeader(code) }
	}
	for _, test := range []struct {
		name   string
		resume func(http.ResponseWriter)
		want   string
	}{
		{"404", status(404), "the server answered Not Found"},
		{"405", status(405), "the server answered Method Not Allowed"},
		{"401", status(401), "the server answered Unauthorized"},
		{"429", status(429), "the server answered Too Many Requests"},
		{"502", status(502), "the server answered Bad Gateway"},
		{"HTML", func(w http.ResponseWriter) { fmt.Fprint(w, "<html>") }, "the server answered no stream"},
		{"nothing", func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/event-stream") }, "connection was lost"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBreaking(t, test.resume)
			s := openReady(t, &mcpsource.Options{Name: "shelf", URL: listen(t, b), Protocol: protocol.Stateful})
			f := mustFail(t.Context(), t, s, "shelf.put", `{"name":"a"}`, fault.Unavailable)
			if f.Outcome != fault.SentUnknown || !strings.Contains(f.Message, test.want) || !strings.Contains(f.Message, "it is not known whether") {
				t.Errorf("got outcome %q: %s, want sent_unknown and %q", f.Outcome, f.Message, test.want)
			}
			if b.writes.Load() != 1 || b.resumes.Load() == 0 {
				t.Errorf("got %d writes and %d requests for the rest, want 1 and some", b.writes.Load(), b.resumes.Load())
			}
			b.set(func(http.ResponseWriter, *http.Request, string) bool { return false })
			mustCall(t, s, "shelf.put", `{"name":"a"}`)
			if b.greetings.Load() != 1 {
				t.Error("the session was lost")
			}
		})
	}
}

// If the server is down when the rest is requested, the call ends then, before its time limit. When the server is back, the call has been
// made once.
func TestResumeFromStoppedServer(t *testing.T) {
	t.Parallel()
	var down, failed atomic.Bool
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	b := newBreaking(t, func(http.ResponseWriter) {})
	var resumes atomic.Int32
	client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if down.Load() {
			if r.Header.Get("Last-Event-Id") == "7" {
				resumes.Add(1)
			}
			return nil, refused
		}
		response, err := http.DefaultTransport.RoundTrip(r)
		if b.writes.Load() > 0 && !failed.Swap(true) {
			down.Store(true)
		}
		return response, err
	})}
	s := openReady(t, &mcpsource.Options{Name: "shelf", URL: listen(t, b), Protocol: protocol.Stateful, HTTPClient: client})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	f := mustFail(ctx, t, s, "shelf.put", `{"name":"a"}`, fault.Unavailable)
	if f.Outcome != fault.SentUnknown || !strings.Contains(f.Message, "connection refused") {
		t.Errorf("got outcome %q: %s, want sent_unknown and connection refused", f.Outcome, f.Message)
	}
	if resumes.Load() != 1 || b.writes.Load() != 1 {
		t.Errorf("the rest was requested %d times and the call made %d times, want 1 and 1", resumes.Load(), b.writes.Load())
	}
	await(t, s, steps.StateRetrying) // no other event may reveal that it is down
	b.set(func(http.ResponseWriter, *http.Request, string) bool { return false })
	down.Store(false)
	mustCall(t, s, "shelf.put", `{"name":"a"}`)
}

// If the rest of an answer can be fetched, the call succeeds.
func TestResume(t *testing.T) {
	t.Parallel()
	b := newBreaking(t, nil)
	var id atomic.Pointer[string]
	before := *b.before.Load()
	b.set(func(w http.ResponseWriter, r *http.Request, body string) bool {
		if r.Header.Get("Last-Event-Id") == "7" {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "id: 8\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"rest\"}]}}\n\n",
				*id.Load())
			return true
		}
		if gjson.Get(body, "method").Str == "tools/call" {
			raw := gjson.Get(body, "id").Raw
			id.Store(&raw)
		}
		return before(w, r, body)
	})
	s := openReady(t, &mcpsource.Options{Name: "shelf", URL: listen(t, b), Protocol: protocol.Stateful})
	if got := mustCall(t, s, "shelf.put", `{"name":"a"}`); got != `"rest"` || b.writes.Load() != 1 {
		t.Errorf("got %s after %d calls, want rest after 1", got, b.writes.Load())
	}
}

// A failed cancellation does not change the outcome of the call: it was sent.
func TestFailedCancellation(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	server := &rawServer{call: func(w http.ResponseWriter, r *http.Request, _ string) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		begun <- struct{}{}
		<-r.Context().Done()
	}}
	client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.GetBody != nil {
			body, _ := r.GetBody()
			if text, _ := io.ReadAll(body); strings.Contains(string(text), "notifications/cancelled") {
				return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
			}
		}
		return http.DefaultTransport.RoundTrip(r)
	})}
	s := openRaw(t, server, mcpsource.Options{HTTPClient: client},
		`{"name":"a"},{"name":"b","inputSchema":{"type":"object","properties":{"x":{"type":"string","x-mcp-header":"X"}}}}`)
	for _, tool := range []string{"net.a", "net.b"} { // the SDK makes the second call
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-begun
			cancel()
		}()
		if f := mustFail(ctx, t, s, tool, `{}`, fault.Cancelled); f.Outcome != fault.SentUnknown {
			t.Errorf("%s: %+v, want sent_unknown", tool, f)
		}
	}
	if server.sessions != 1 || s.Status().State != steps.StateReady {
		t.Errorf("got %d sessions, status %+v, want 1 and ready", server.sessions, s.Status())
	}
}

// A refusal of a call has another message than a refusal at the start (TestPageIsNoServer).
func TestRejectedCall(t *testing.T) {
	t.Parallel()
	f := newSwitchedHandler(t, nil)
	s := openReady(t, &mcpsource.Options{Name: "shelf", URL: listen(t, f)})
	const unknown = ": it is not known whether the work of the call was done"
	for status, want := range map[int]struct {
		outcome fault.Outcome
		text    string
	}{
		301: {fault.SentUnknown, "301"},
		302: {fault.SentUnknown, "302"},
		303: {fault.SentUnknown, "303"},
		404: {fault.NotSent, "it answered Not Found, and did not carry out the call"},
		405: {"", "405"},
		429: {fault.NotSent, "it answered Too Many Requests: call it again later"},
		500: {fault.SentUnknown, "it answered Internal Server Error" + unknown},
		503: {fault.SentUnknown, "it answered Service Unavailable" + unknown},
		599: {fault.SentUnknown, "it answered HTTP status 599" + unknown},
	} {
		f.set(onCalls(func(w http.ResponseWriter, _ string) { w.WriteHeader(status) }))
		_, err := function(t, s, "shelf.put").Call(t.Context(), []byte(`{"name":"a"}`))
		got, _ := fault.As(err)
		if got == nil || got.Outcome != want.outcome || !strings.Contains(got.Message, want.text) ||
			strings.Contains(got.Message, "check its url") || strings.Contains(got.Message, "tried again") {
			t.Errorf("status %d: got %+v, want %q and outcome %q", status, got, want.text, want.outcome)
		}
	}
}

// TestRedirectedResume: the request for the rest of an answer follows redirects, as calls do.
func TestRedirectedResume(t *testing.T) {
	t.Parallel()
	var call atomic.Value // the id of the call
	b := newSwitchedHandler(t, nil)
	b.set(func(w http.ResponseWriter, r *http.Request, body string) bool {
		switch {
		case gjson.Get(body, "method").Str == "tools/call":
			call.Store(gjson.Get(body, "id").Raw)
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "id: 7\nretry: 10\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\","+
				"\"params\":{\"level\":\"info\",\"data\":\"working\"}}\n\n")
		case r.Header.Get("Last-Event-Id") != "" && r.URL.Path != "/rest":
			http.Redirect(w, r, "/rest", http.StatusTemporaryRedirect)
		case r.Header.Get("Last-Event-Id") != "":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"42\"}]}}\n\n", call.Load())
		default:
			return false
		}
		return true
	})
	s := openReady(t, &mcpsource.Options{Name: "shelf", URL: listen(t, b), Protocol: protocol.Stateful})
	if got := mustCall(t, s, "shelf.put", `{"name":"b"}`); got != `"42"` {
		t.Errorf("got %s, want \"42\", the rest of the answer", got)
	}
}
