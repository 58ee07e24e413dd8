package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/steps"
)

// TestNothingRemainsPending: a call leaves nothing in the tables of its connection, however it ends.
func TestNothingRemainsPending(t *testing.T) {
	t.Parallel()
	server := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "a", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{}, nil
		})
	remote := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	defer remote.Close()
	s, err := New(&Options{Name: "s", URL: remote.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	conn, f := s.acquire(t.Context())
	if f != nil {
		t.Fatal(f)
	}
	s.release(conn)
	for i := range 20 {
		ctx := steps.WithCallbacks(t.Context(), &steps.Callbacks{Progress: func(context.Context, float64, float64, string) {}})
		ctx, cancel := context.WithCancel(ctx)
		if i%2 == 0 {
			cancel()
		}
		_, _ = s.Functions()[0].Call(ctx, []byte(`{}`))
		cancel()
	}
	session, err := s.OpenSession(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = session.Close()
	if len(s.clientSessions) != 0 {
		t.Errorf("%d sessions remain, want none", len(s.clientSessions))
	}
	if conn.calls != 0 || len(conn.tap.pending) != 0 || len(conn.tap.progress) != 0 {
		t.Errorf("%d calls, %d requests and %d progress tokens remain, want none",
			conn.calls, len(conn.tap.pending), len(conn.tap.progress))
	}
}

// TestRegisterOnce: another request in the context of a call is not registered as the call.
func TestRegisterOnce(t *testing.T) {
	t.Parallel()
	tap, call := newTap(newSource(Options{Name: "s", Command: "x"})), &pendingRequest{stub: noContent}
	ctx := call.withContext(t.Context())
	if tap.register(ctx, 5) != call || tap.register(ctx, 6) != nil || call.id != 5 {
		t.Errorf("got %+v, want it registered once, with id 5", call)
	}
}

// TestStreamsAreAwaitedAgain: a server first keeps the streams of its answers open, and later ends them. Calls then go back to waiting for
// the end of their streams, so that connections are reused.
func TestStreamsAreAwaitedAgain(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	remote := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		answer := func(result string) {
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", gjson.GetBytes(body, "id").Raw, result)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		switch gjson.GetBytes(body, "method").Str {
		case methodInitialize:
			answer(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`)
		case "tools/list":
			answer(`{"tools":[{"name":"a"}]}`)
		case methodCall:
			if answer(`{"content":[]}`); calls.Add(1) <= maxLateStreams {
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			}
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	defer remote.Close()
	s, err := New(&Options{Name: "s", URL: remote.URL, Protocol: protocol.Stateful})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	conn, f := s.acquire(t.Context())
	if f != nil {
		t.Fatal(f)
	}
	defer s.release(conn)
	call := func() {
		if result, err := s.Functions()[0].Call(t.Context(), []byte(`{}`)); err != nil {
			t.Fatalf("call: got %s, %v, want success", result, err)
		}
	}
	for range maxLateStreams {
		call()
	}
	if got := conn.lateStreams.Load(); got != maxLateStreams {
		t.Fatalf("got %d streams without an end, want %d", got, maxLateStreams)
	}
	for conn.lateStreams.Load() > 0 {
		if call(); calls.Load() > 1000 {
			t.Fatal("calls no longer wait for the end of their streams")
		}
	}
}
