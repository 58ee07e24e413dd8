package mcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/steps"
)

// breakingServer is a server whose answers to calls are streams that break off after an event with an id, so that the client
// may ask for the rest.
type breakingServer struct {
	*switchedHandler
	writes  atomic.Int32 // calls that the server has seen
	resumes atomic.Int32
}

func newBreaking(t *testing.T, resume func(w http.ResponseWriter)) *breakingServer {
	b := &breakingServer{switchedHandler: newFront(t, nil)}
	b.set(func(w http.ResponseWriter, r *http.Request, body string) bool {
		switch {
		case gjson.Get(body, "method").Str == "tools/call":
			b.writes.Add(1)
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "id: 7\nretry: 10\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"working\"}}\n\n")
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

// A call whose answer broke off is never made again, whatever becomes of the request for the rest; and it is that call's
// own misfortune: the session goes on.
func TestResumeThatFails(t *testing.T) {
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
			s := openSource(t, &Options{Name: "shelf", URL: listen(t, b), Protocol: protocol.Stateful})
			await(t, s, steps.StateReady)
			s.mu.Lock()
			session := s.conn
			s.mu.Unlock()
			f := mustFail(t.Context(), t, s, "shelf.put", `{"name":"a"}`, fault.Unavailable)
			if f.Outcome != fault.SentUnknown || !strings.Contains(f.Message, test.want) || !strings.Contains(f.Message, "it is not known whether") {
				t.Errorf("%q: %s", f.Outcome, f.Message)
			}
			if b.writes.Load() != 1 || b.resumes.Load() == 0 {
				t.Errorf("the server has seen %d writes, %d requests for the rest", b.writes.Load(), b.resumes.Load())
			}
			b.set(func(http.ResponseWriter, *http.Request, string) bool { return false })
			mustCall(t, s, "shelf.put", `{"name":"a"}`)
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.conn != session {
				t.Error("the session was lost on the way")
			}
		})
	}
}

// The server is gone when it is asked for the rest: the call ends there, and not with its time; when the server is back,
// the call has been made once.
func TestResumeFromServerThatIsGone(t *testing.T) {
	t.Parallel()
	var down, fell atomic.Bool
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	b := newBreaking(t, func(http.ResponseWriter) {})
	var tried atomic.Int32
	client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if down.Load() {
			if r.Header.Get("Last-Event-Id") == "7" {
				tried.Add(1)
			}
			return nil, refused
		}
		response, err := http.DefaultTransport.RoundTrip(r)
		if b.writes.Load() > 0 && !fell.Swap(true) {
			down.Store(true)
		}
		return response, err
	})}
	s := openSource(t, &Options{Name: "shelf", URL: listen(t, b), Protocol: protocol.Stateful, HTTPClient: client})
	await(t, s, steps.StateReady)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	f := mustFail(ctx, t, s, "shelf.put", `{"name":"a"}`, fault.Unavailable)
	if f.Outcome != fault.SentUnknown || !strings.Contains(f.Message, "connection refused") {
		t.Errorf("%q: %s", f.Outcome, f.Message)
	}
	if tried.Load() != 1 || b.writes.Load() != 1 {
		t.Errorf("the rest was asked for %d times, the call made %d times", tried.Load(), b.writes.Load())
	}
	await(t, s, steps.StateRetrying) // nothing else may tell that it is gone
	b.set(func(http.ResponseWriter, *http.Request, string) bool { return false })
	down.Store(false)
	mustCall(t, s, "shelf.put", `{"name":"a"}`)
}

// The rest of an answer that can be had is the answer.
func TestResume(t *testing.T) {
	t.Parallel()
	b := newBreaking(t, nil)
	var id atomic.Pointer[string]
	before := *b.before.Load()
	b.set(func(w http.ResponseWriter, r *http.Request, body string) bool {
		if r.Header.Get("Last-Event-Id") == "7" {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "id: 8\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"rest\"}]}}\n\n", *id.Load())
			return true
		}
		if gjson.Get(body, "method").Str == "tools/call" {
			raw := gjson.Get(body, "id").Raw
			id.Store(&raw)
		}
		return before(w, r, body)
	})
	s := openSource(t, &Options{Name: "shelf", URL: listen(t, b), Protocol: protocol.Stateful})
	await(t, s, steps.StateReady)
	if got := mustCall(t, s, "shelf.put", `{"name":"a"}`); got != `"rest"` || b.writes.Load() != 1 {
		t.Errorf("it answers %s after %d calls", got, b.writes.Load())
	}
}

// What becomes of the word that a call is cancelled says nothing about the call: it was sent.
func TestCancellationThatIsRefused(t *testing.T) {
	t.Parallel()
	f := newFront(t, nil)
	client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		body, _ := r.GetBody()
		text := make([]byte, 100)
		n, _ := body.Read(text)
		if strings.Contains(string(text[:n]), "notifications/cancelled") {
			return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
		}
		return http.DefaultTransport.RoundTrip(r)
	})}
	x := &pendingRequest{stub: noContent}
	s := newSource(Options{Name: "shelf", URL: listen(t, f)})
	w := newTappedTransport(s, newTap(s), client.Transport)
	send := func(body string) {
		r, err := http.NewRequestWithContext(x.withContext(t.Context()), http.MethodPost, s.options.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if response, err := w.RoundTrip(r); err == nil {
			_ = response.Body.Close()
		}
	}
	f.set(onCalls(func(w http.ResponseWriter, _ string) { w.Header().Set("Content-Type", "text/event-stream") }))
	send(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{}}`)
	send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
	send(`{"jsonrpc":"2.0","id":6,"method":"notifications/cancelled"}`) // another request's id
	if x.mu.Lock(); !x.sent || x.cause != nil || x.status != 0 || x.id != 5 {
		t.Errorf("%+v", x)
	}
	x.mu.Unlock()
}

// A refusal of a call names what a refusal at the start does not, and the other way round.
func TestRefusalOfACall(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{
		404: "it answered Not Found, and has not taken up the call",
		405: "it answered Method Not Allowed, and has not taken up the call",
		303: "it answered See Other: it is not known whether the work of the call was done",
		429: "it answered Too Many Requests: call it again later",
		500: "it answered Internal Server Error: it is not known whether the work of the call was done",
		599: "it answered HTTP status 599: it is not known whether the work of the call was done",
	} {
		if got := newSource(Options{Name: "shelf"}).refusalText(status); got != want {
			t.Errorf("%d: %q", status, got)
		}
	}
	f := newFront(t, nil)
	s := openSource(t, &Options{Name: "shelf", URL: listen(t, f)})
	await(t, s, steps.StateReady)
	for status, outcome := range map[int]fault.Outcome{
		301: fault.SentUnknown, 302: fault.SentUnknown, 303: fault.SentUnknown, 404: fault.NotSent, 405: "", 503: fault.SentUnknown,
	} {
		f.set(onCalls(func(w http.ResponseWriter, _ string) { w.WriteHeader(status) }))
		_, err := function(t, s, "shelf.put").Call(t.Context(), []byte(`{"name":"a"}`))
		if err == nil || strings.Contains(err.Error(), "check its url") || strings.Contains(err.Error(), "tried again") {
			t.Errorf("%d: %v", status, err)
		}
		if got, _ := fault.As(err); got == nil || got.Outcome != outcome {
			t.Errorf("%d: %+v, want the outcome %s", status, got, outcome)
		}
	}
	late := time.Now().Add(patience)
	gone := listen(t, http.NotFoundHandler())
	other := openSource(t, &Options{Name: "shelf", URL: gone})
	if f := await(t, other, steps.StateRetrying).Error; !strings.Contains(f.Message, "check its url") || time.Now().After(late) {
		t.Errorf("at the start: %v", f)
	}
}

func TestFingerprintTellsPathsApart(t *testing.T) {
	t.Parallel()
	of := func(url string) string { return (&Options{Name: "shelf", URL: url}).fingerprint() }
	if of("https://h/a") == of("https://h/b") || of("https://h/a") != of("https://h/a?key=x") {
		t.Error("the path counts, the query does not")
	}
}
