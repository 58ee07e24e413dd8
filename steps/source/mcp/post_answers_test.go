package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/oauth2"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// TestPostReceivesListChanged: notifications in the stream of an answer arrive, although the SDK does not read that stream.
func TestPostReceivesListChanged(t *testing.T) {
	t.Parallel()
	server := &rawServer{}
	server.call = func(w http.ResponseWriter, _ *http.Request, id string) {
		server.mu.Lock()
		server.listed = toolList("a", "b")
		server.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, okResult)
	}
	s := openRaw(t, server, mcpsource.Options{}, toolList("a"))
	mustCall(t, s, "net.a", `{}`)
	until(t, s, func() bool { return len(s.Functions()) == 2 })
}

// TestPostAnsweredOnGeneralStream: an answer on the session's general stream also ends the call.
func TestPostAnsweredOnGeneralStream(t *testing.T) {
	t.Parallel()
	answers := make(chan string, 1)
	stream := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			_ = http.NewResponseController(w).Flush()
			select {
			case id := <-answers:
				fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, okResult)
			case <-r.Context().Done():
				return
			}
		}
	}
	call := func(w http.ResponseWriter, r *http.Request, id string) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		answers <- id
		<-r.Context().Done()
	}
	s := openRaw(t, &rawServer{stream: stream, call: call}, mcpsource.Options{}, toolList("a"))
	if got := mustCall(t, s, "net.a", `{}`); got != `"ok"` {
		t.Errorf(`got %s, want "ok"`, got)
	}
}

type userKey struct{}

// userHeader modifies the requests that it receives, which a round tripper should not do.
type userHeader struct{}

// RoundTrip implements http.RoundTripper.
func (userHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	if user, ok := r.Context().Value(userKey{}).(string); ok {
		r.Header.Set("X-User", user)
		r.URL.RawQuery = "user=" + user
	}
	return http.DefaultTransport.RoundTrip(r)
}

// TestPostsAreIsolated: changes that a round tripper makes to one call's request appear in no other request.
func TestPostsAreIsolated(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	users := map[string]int{}
	server := &rawServer{call: func(w http.ResponseWriter, r *http.Request, id string) {
		mu.Lock()
		users[r.Header.Get("X-User")+" "+r.URL.RawQuery]++
		mu.Unlock()
		answerJSON(w, id, okResult)
	}}
	s := openRaw(t, server, mcpsource.Options{HTTPClient: &http.Client{Transport: userHeader{}}}, toolList("a"))
	fn := function(t, s, "net.a")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { _, _ = fn.Call(context.WithValue(t.Context(), userKey{}, "ann"), []byte(`{}`)) })
	}
	all.Wait()
	mustCall(t, s, "net.a", `{}`)
	if users["ann user=ann"] != 20 || users[" "] != 1 || len(users) != 2 {
		t.Errorf("got requests %v, want 20 of ann and 1 of nobody", users)
	}
}

// staleLogin handles rejected tokens as a login does: it replaces an outdated token, and reports a current one.
type staleLogin struct {
	mu       sync.Mutex
	current  string
	rejected []string
}

// TokenSource implements auth.OAuthHandler.
func (l *staleLogin) TokenSource(context.Context) (oauth2.TokenSource, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return oauth2.StaticTokenSource(&oauth2.Token{AccessToken: l.current}), nil
}

// Authorize implements auth.OAuthHandler.
func (l *staleLogin) Authorize(_ context.Context, r *http.Request, answer *http.Response) error {
	_ = answer.Body.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	sent := r.Header.Get("Authorization")
	l.rejected = append(l.rejected, sent)
	switch {
	case sent != "Bearer "+l.current:
		return nil
	case l.current == "B":
		return errors.New("the token that was just given is refused")
	}
	l.current = "B"
	return nil
}

// TestPostRejectedAfterRenewal: two calls are sent with a token that is rejected. When the rejection of one arrives, the other already has
// a new token: only the old token was rejected.
func TestPostRejectedAfterRenewal(t *testing.T) {
	t.Parallel()
	var rejecting atomic.Bool
	rejection, renewed := make(chan struct{}), make(chan struct{})
	server := &rawServer{call: func(w http.ResponseWriter, r *http.Request, id string) {
		if rejecting.Load() && r.Header.Get("Authorization") == "Bearer A" {
			if r.Header.Get("X-User") != "" {
				close(rejection)
				<-renewed
			}
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		answerJSON(w, id, okResult)
	}}
	login := &staleLogin{current: "A"}
	s := openRaw(t, server, mcpsource.Options{OAuth: login, HTTPClient: &http.Client{Transport: userHeader{}}}, toolList("a"))
	mustCall(t, s, "net.a", `{}`)
	rejecting.Store(true)
	fn := function(t, s, "net.a")
	if fn.Prompt {
		t.Error("a function with a login is marked as prompt")
	}
	done := make(chan error, 1)
	go func() {
		_, err := fn.Call(context.WithValue(t.Context(), userKey{}, "late"), []byte(`{}`))
		done <- err
	}()
	<-rejection
	if _, err := fn.Call(t.Context(), []byte(`{}`)); err != nil {
		t.Error(err)
	}
	close(renewed)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if !slices.Equal(login.rejected, []string{"Bearer A", "Bearer A"}) {
		t.Errorf("got rejected %q, want Bearer A twice", login.rejected)
	}
}

// loggedOut is a login that fails.
type loggedOut struct {
	staleLogin
	err error
}

// TokenSource implements auth.OAuthHandler.
func (l *loggedOut) TokenSource(context.Context) (oauth2.TokenSource, error) { return nil, l.err }

// TestNamedOnce checks that a message about a server, which a login may have written, has the server's name once.
func TestNamedOnce(t *testing.T) {
	t.Parallel()
	url := listen(t, newSwitchedHandler(t, nil))
	for message, want := range map[string]string{
		`server "shelf": its login was not renewed`:         `): its login was not renewed`,
		`server "shelf" answers with status 500`:            `): it answers with status 500`,
		`MCP server "shelf" broke off its answer`:           `): it broke off its answer`,
		`server "other" is not "shelf"`:                     `): server "other" is not "shelf"`,
		`tokens are not sent to a server of the name shelf`: `): tokens are not sent to a server of the name shelf`,
	} {
		s := openSource(t, &mcpsource.Options{Name: "shelf", URL: url, OAuth: &loggedOut{err: fault.New(fault.Denied, "%s", message)}})
		status := await(t, s, steps.StateRetrying)
		if !strings.HasPrefix(status.Error.Message, `MCP server "shelf" (`) || !strings.HasSuffix(status.Error.Message, want) {
			t.Errorf("got %q, want the server once and then %q", status.Error.Message, want)
		}
	}
}
