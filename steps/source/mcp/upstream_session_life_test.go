package mcp_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/protocol"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// A client that receives nothing delays neither other clients nor the server.
func TestUpstreamSessionWithSlowClient(t *testing.T) {
	t.Parallel()
	s := openReady(t, childOptions(t, "full"))
	c := newClient("ann", "2025-11-25")
	hang := make(chan struct{})
	c.Notify = func(context.Context, string, json.RawMessage) { <-hang }
	l := openSession(t, s, &c.DownstreamClient)
	l.do(t, "logging/setLevel", `{"level":"info"}`)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	started := time.Now()
	_, _ = function(t, s, "shelf.log").Call(l.CallContext(ctx, nil), []byte(`{"n":2000}`))
	if time.Since(started) > patience/4 {
		t.Errorf("the call returned after %v, want at most %v", time.Since(started), patience/4)
	}
	close(hang)
	if got := callText(t, l, "shelf.pid", `{}`); got == "" {
		t.Error("a later call in the session returned no text")
	}
}

// A lost session is opened again with the client's log level and subscriptions.
func TestUpstreamSessionReconnects(t *testing.T) {
	t.Parallel()
	s := openReady(t, childOptions(t, "full"))
	c := newClient("ann", "2025-11-25")
	l := openSession(t, s, &c.DownstreamClient)
	for method, params := range map[string]string{"logging/setLevel": `{"level":"info"}`, "resources/subscribe": `{"uri":"a://r"}`} {
		l.do(t, method, params)
	}
	before := callText(t, l, "shelf.pid", `{}`)
	pid := gjson.Parse(mustCall(t, s, "shelf.pid", `{}`)).String()
	if _, err := callTool(t, l, "shelf.die", `{}`, ""); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("a call that ends the server: got %v, want unavailable", err)
	}
	after := callText(t, l, "shelf.pid", `{}`)
	if before == after || before == pid || gjson.Parse(mustCall(t, s, "shelf.pid", `{}`)).String() != pid {
		t.Errorf("got process %s, then %s; the source's own is %s, want three different ones, and the last still there", before, after, pid)
	}
	callText(t, l, "shelf.log", `{"n":1}`)
	c.awaitNotification(t, "notifications/message")
	callText(t, l, "shelf.touch", `{"uri":"a://r"}`)
	c.awaitNotification(t, "notifications/resources/updated")
}

// A server that does not start, and a server that does not answer.
func TestUpstreamSessionFailures(t *testing.T) {
	t.Parallel()
	mute := openReady(t, childOptions(t, "mute in calls"))
	c := newClient("ann", "2025-11-25")
	l := openSession(t, mute, &c.DownstreamClient)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := l.Do(ctx, "resources/list", nil); err != nil { // greet ignores other methods
		if code := fault.CodeOf(err); code != fault.Timeout {
			t.Errorf("a server that never answers: got %v, want timeout", err)
		}
	} else {
		t.Error("a server that never answers returned a result")
	}
	missing := openSource(t, &mcpsource.Options{Name: "shelf", Command: "/nowhere/at-all"})
	if _, err := missing.OpenSession(t.Context(), nil); fault.CodeOf(err) != fault.BadRequest {
		t.Errorf("a missing program: got %v, want bad_request", err)
	}
}

// Closed sessions leave nothing behind.
func TestUpstreamSessionLeavesNoGoroutines(t *testing.T) {
	o := childOptions(t, "full")
	o.MaxSessions = 1 // a session that is left would block the next
	s := openReady(t, o)
	remote := openReady(t, &mcpsource.Options{Name: "shelf", URL: listen(t, httpServer(fullServer(), nil)), Protocol: protocol.Stateful,
		MaxSessions: 1})
	useSessions := func() {
		for _, source := range []*mcpsource.Source{s, remote} {
			c := newClient("ann", "2025-11-25")
			l := openSession(t, source, &c.DownstreamClient)
			callText(t, l, "shelf.ask", `{}`)
			l.do(t, "resources/subscribe", `{"uri":"a://r"}`)
			_ = l.Close()
		}
	}
	useSessions() // creates what lasts
	before := runtime.NumGoroutine()
	for range 5 {
		useSessions()
	}
	if !poll(func() bool { return runtime.NumGoroutine() <= before+4 }) {
		after := runtime.NumGoroutine()
		stacks := make([]byte, 1<<20)
		t.Errorf("%d goroutines before, %d after, want at most 4 more\n%s", before, after, stacks[:runtime.Stack(stacks, true)])
	}
}

// A client that waits for notifications still gets them after the server has ended and restarted, without making a call.
func TestUpstreamSessionReconnectsByItself(t *testing.T) {
	t.Parallel()
	for name, follow := range map[string]func(l *session) error{
		"subscribed": func(l *session) error {
			_, err := l.Do(t.Context(), "resources/subscribe", json.RawMessage(`{"uri":"a://r"}`))
			return err
		},
		"listening": func(l *session) error {
			l.SetReconnect(true)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openReady(t, childOptions(t, "full"))
			c := newClient("ann", "2025-11-25")
			l := openSession(t, s, &c.DownstreamClient)
			if err := follow(l); err != nil {
				t.Fatal(err)
			}
			if _, err := callTool(t, l, "shelf.die", `{}`, ""); fault.CodeOf(err) != fault.Unavailable {
				t.Errorf("a call that ends the server: got %v, want unavailable", err)
			}
			c.awaitNotification(t, "notifications/resources/list_changed")
			c.awaitNotification(t, "notifications/prompts/list_changed")
			if name == "subscribed" {
				callText(t, l, "shelf.touch", `{"uri":"a://r"}`)
				c.awaitNotification(t, "notifications/resources/updated")
			}
		})
	}
}

// A subscription of a client without sessions ends with its request if the server does not open the stream.
func TestSubscriptionEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	handler := httpServer(fullServer(), &sdk.StreamableHTTPOptions{Stateless: true})
	asked, left := make(chan struct{}), make(chan struct{})
	s := openReady(t, &mcpsource.Options{Name: "shelf", URL: listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "a://r") {
			close(asked)
			<-r.Context().Done()
			close(left)
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		handler.ServeHTTP(w, r)
	}))})
	c := newClient("ann", protocol.Stateless)
	c.Ask = nil
	l := openSession(t, s, &c.DownstreamClient)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := l.Do(ctx, "resources/subscribe", json.RawMessage(`{"uri":"a://r"}`))
		ended <- err
	}()
	<-asked
	cancel()
	timeout := time.After(patience)
	select {
	case err := <-ended:
		if fault.CodeOf(err) != fault.Cancelled {
			t.Errorf("got %v, want cancelled", err)
		}
	case <-timeout:
		t.Fatal("the request did not end")
	}
	select {
	case <-left:
	case <-timeout:
		t.Error("the server's request did not end")
	}
}
