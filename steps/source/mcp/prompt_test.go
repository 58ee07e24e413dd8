package mcp_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// callUntilDeadline calls a function that would never return by itself, ends its context, and waits for it. The promise is 100 ms; a busy
// machine may need longer, but the server must not delay the return.
func callUntilDeadline(ctx context.Context, t *testing.T, call steps.Call, args string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	return callUntilDone(ctx, t, call, args)
}

// callUntilDone calls a function that returns because its context ends.
func callUntilDone(ctx context.Context, t *testing.T, call steps.Call, args string) error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := call(ctx, []byte(args))
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		t.Fatal("the call did not return after its context ended")
		return nil
	}
}

// A server that does not read delays no caller beyond the end of its context.
func TestPromptWithDeafServer(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("functions are not prompt on Windows, where pipes have no deadlines")
	}
	s, _ := openBad(t, "deaf", nil)
	await(t, s, steps.StateReady)
	fn := function(t, s, "shelf.a")
	if !fn.Prompt {
		t.Fatal("the function is not marked as prompt")
	}
	// One call fills the pipe and keeps waiting; other calls do not wait for it.
	big := `{"a":"` + strings.Repeat("x", 4<<20) + `"}`
	long, cancel := context.WithCancel(t.Context())
	filling := make(chan error, 1)
	go func() {
		_, err := fn.Call(long, []byte(big))
		filling <- err
	}()
	if !poll(func() bool { // until then the pipe has room for a short call
		f, _ := fault.As(callUntilDeadline(t.Context(), t, fn.Call, `{}`))
		return f != nil && f.Code == fault.Timeout && f.Outcome == fault.NotSent
	}) {
		t.Error("a call to a server that reads nothing counts as sent")
	}
	cancel()
	if f, _ := fault.As(<-filling); f == nil || f.Code != fault.Cancelled || f.Outcome != fault.SentUnknown {
		t.Errorf("the call whose message was written in part: got %+v, want cancelled and sent_unknown", f)
	}
	if err := callUntilDeadline(t.Context(), t, fn.Call, big); fault.CodeOf(err) != fault.Timeout {
		t.Errorf("got %v, want timeout", err)
	}
}

func TestPromptWithMuteServer(t *testing.T) {
	t.Parallel()
	stop := testEnd(t)
	f := newSwitchedHandler(t, nil)
	s := openReady(t, &mcpsource.Options{Name: "shelf", URL: listen(t, f), Protocol: protocol.Stateful})
	fn := function(t, s, "shelf.put")
	if !fn.Prompt {
		t.Error("the function is not marked as prompt")
	}
	flush := func(w http.ResponseWriter) {
		if flusher, ok := w.(http.Flusher); ok {
			flusher.Flush()
		}
	}
	for name, answer := range map[string]func(w http.ResponseWriter){
		"nothing": func(http.ResponseWriter) {},
		"headers": func(w http.ResponseWriter) { w.Header().Set("Content-Type", "application/json"); flush(w) },
		"part of an error": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte("{"))
			flush(w)
		},
		"part of an error of the session": func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden); flush(w) },
		"stream":                          func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/event-stream"); flush(w) },
	} {
		f.set(func(w http.ResponseWriter, r *http.Request, body string) bool {
			if gjson.Get(body, "method").Str != "tools/call" {
				return false
			}
			answer(w)
			select {
			case <-stop:
			case <-r.Context().Done():
			}
			return true
		})
		if err := callUntilDeadline(t.Context(), t, fn.Call, `{"name":"a"}`); err == nil || fault.CodeOf(err) != fault.Timeout &&
			name != "part of an error" {
			t.Errorf("server sends %s: got %v, want timeout", name, err)
		}
	}
}

// A server that does not even read the requests.
func TestPromptWithDeafServerBehindHTTP(t *testing.T) {
	t.Parallel()
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = deaf.Close() }()
	var redirected atomic.Bool
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if redirected.Load() {
			address = deaf.Addr().String()
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	s := openReady(t, &mcpsource.Options{Name: "shelf", URL: listen(t, newSwitchedHandler(t, nil)), HTTPClient: &http.Client{Transport: transport}})
	fn := function(t, s, "shelf.echo")
	redirected.Store(true)
	err = callUntilDeadline(t.Context(), t, fn.Call, `{"a":"`+strings.Repeat("x", 16<<20)+`"}`)
	if f, _ := fault.As(err); f == nil || f.Code != fault.Timeout {
		t.Errorf("got %v, want timeout", err)
	}
}

// A store that hangs delays a failure no longer than a server does. A panic of the store reaches the caller's goroutine, which may recover.
func TestPromptWithKeep(t *testing.T) {
	t.Parallel()
	result := fmt.Sprintf(`{"isError":true,"content":[{"type":"text","text":%q}]}`, strings.Repeat("long ", 1000))
	call := function(t, openAnswering(t, &result), "net.a").Call
	hang := make(chan struct{})
	defer close(hang)
	var attempts atomic.Int32
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hanging := steps.WithCallbacks(ctx, &steps.Callbacks{Keep: func(context.Context, []byte) (string, error) {
		attempts.Add(1)
		cancel()
		<-hang
		return "oc1_late", nil
	}})
	err := callUntilDone(hanging, t, call, `{}`)
	if attempts.Load() != 1 || err == nil || strings.Contains(err.Error(), "oc1_late") {
		t.Errorf("got %v after %d attempts, want a failure after 1", err, attempts.Load())
	}
	broken := steps.WithCallbacks(t.Context(), &steps.Callbacks{Keep: func(context.Context, []byte) (string, error) { panic("broken") }})
	defer func() {
		if recover() == nil {
			t.Error("the panic did not reach the caller")
		}
	}()
	_, _ = call(broken, []byte(`{}`))
}
