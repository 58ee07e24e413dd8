package mcp_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/syncbuf"
	"github.com/onecall-mcp/onecall/internal/telemetry"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
)

// idLog is a log whose lines are looked up by their chain ids.
type idLog struct{ syncbuf.Buffer }

// requests returns the lines of the requests with an id.
func (l *idLog) requests(id string) (matches []gjson.Result) {
	for line := range strings.SplitSeq(l.String(), "\n") {
		if one := gjson.Parse(line); one.Get("msg").Str == "request" && one.Get("chain_id").Str == id {
			matches = append(matches, one)
		}
	}
	return matches
}

// observed gives a server an engine with telemetry, and returns its log.
func observed(t *testing.T, o *mcp.Options) *idLog {
	t.Helper()
	log := &idLog{}
	tel, err := telemetry.New(&telemetry.Options{Log: slog.New(slog.NewJSONHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	o.Trace = telemetry.WithCall
	o.Engine, err = chain.New(&chain.Options{Functions: o.Catalog, Counter: o.Counter, MaxTotalTokens: o.MaxTotalTokens, Observer: tel})
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// headers is the transport of a client. It records the chain id in the last response.
type headers struct {
	next http.RoundTripper
	id   atomic.Value
}

func (h *headers) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("Onecall-Chain", "chosen") // the server ignores it
	response, err := h.next.RoundTrip(r)
	if err == nil {
		if id := response.Header.Get("Onecall-Chain"); id != "" || r.Method == http.MethodPost {
			h.id.Store(id)
		}
	}
	return response, err
}

// connectRecording connects a client that records ids, with a bearer token.
func connectRecording(t *testing.T, url, token, version string) (*sdk.ClientSession, *headers) {
	t.Helper()
	client := withToken(token)
	h := &headers{next: client.Transport}
	client.Transport = h
	return mcptest.Connect(t, &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: client}, nil, version), h
}

// idOf returns the id in the response that had the result; "": it had no id. It checks that the result does not contain the id.
func (h *headers) idOf(t *testing.T, result *sdk.CallToolResult) string {
	t.Helper()
	id, _ := h.id.Load().(string)
	if shown, err := json.Marshal(result); err != nil || id != "" && strings.Contains(string(shown), id) {
		t.Errorf("the result has the id: %v: %s", err, shown)
	}
	return id
}

// TestChainID: the response to a call names the call's line in the log, however the call ends, and no two calls have the same id.
func TestChainID(t *testing.T) {
	t.Parallel()
	var log *idLog
	a := newUpstream(t, "a", false)
	s := serve(t, func(o *mcp.Options) {
		withUpstreams(t, a)(o)
		log = observed(t, o)
	})
	url := s.serveAs(t, &transport.Access{Callers: mcptest.Staff})
	seen := map[string]bool{}
	for _, caller := range []string{"ann", "eve"} {
		for _, version := range []string{"2025-11-25", "2026-07-28"} {
			client, sent := connectRecording(t, url, caller, version)
			for _, call := range []struct{ tool, args, kind, code string }{
				{"chain", `{"steps":[{"fn":"shop.echo","args":{"text":"x"}}]}`, "chain", "ok"},
				{"chain", `{"lite":true,"steps":[{"fn":"shop.echo","args":{"text":"x"}}]}`, "chain", "ok"},
				{"chain", `{"steps":[{"fn":"shop.nope"}]}`, "chain", "compile"},
				{"search", `{"query":"echo"}`, "deliver", "ok"},
				{"search", `{"query":7}`, "refuse", "bad_request"},
				{"info", `{}`, "deliver", "ok"},
				{"shop_echo", `{"text":"x"}`, "pass", "ok"},
				{"a_exact", `{}`, "pass", "ok"}, // the result is the upstream's own
				{"a_tell", `{}`, "pass", "ok"},
			} {
				result, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: call.tool, Arguments: json.RawMessage(call.args)})
				if err != nil {
					t.Fatal(call, err)
				}
				id := sent.idOf(t, result)
				if !regexp.MustCompile(`^[0-9a-f]{16}$`).MatchString(id) || seen[id] {
					t.Fatalf("%s %s in %s: the id is %q; seen before: %t, want 16 hex digits that are new", call.tool, call.args, version, id, seen[id])
				}
				seen[id] = true
				if lines := log.requests(id); len(lines) != 1 || lines[0].Get("kind").Str != call.kind || lines[0].Get("code").Str != call.code ||
					!strings.Contains(lines[0].Get("caller").Str, caller) {
					t.Errorf("%s %s: log lines of the id %s: %v, want one of kind %s, code %s and caller %s", call.tool, call.args, id, lines, call.kind, call.code, caller)
				}
				if call.tool == "a_exact" && result.Meta["mine"] != 1.0 {
					t.Errorf("the server's own _meta is lost: %v", result.Meta)
				}
			}
		}
	}
}

// TestChainIDOfRefusals: a call beyond the caller's limit has an id, too.
func TestChainIDOfRefusals(t *testing.T) {
	t.Parallel()
	var log *idLog
	s := serve(t, func(o *mcp.Options) {
		o.CallerCalls = 1
		log = observed(t, o)
	})
	url := s.serveAs(t, &transport.Access{Callers: mcptest.Staff})
	slow := connectAs(t, url, "ann", "2025-11-25")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = slow.CallTool(context.Background(), &sdk.CallToolParams{Name: "chain",
			Arguments: json.RawMessage(`{"steps":[{"fn":"shop.slow"}]}`)})
	}()
	<-s.shop.started
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		ann, sent := connectRecording(t, url, "ann", version)
		result, err := ann.CallTool(t.Context(), &sdk.CallToolParams{Name: "info", Arguments: json.RawMessage(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		lines := log.requests(sent.idOf(t, result))
		if len(lines) != 1 || !result.IsError || lines[0].Get("code").Str != "busy" {
			t.Errorf("%s: want busy: %s; log lines: %v", version, mcptest.TextOf(t, result), lines)
		}
	}
	s.shop.finish <- struct{}{}
	<-ended
}

// TestChainIDOverStdio: only a failure with a full trace has the id of its line in the log.
func TestChainIDOverStdio(t *testing.T) {
	t.Parallel()
	var log *idLog
	client := legacyStdio(t, serve(t, func(o *mcp.Options) { log = observed(t, o) }), nil)
	for _, call := range []struct {
		tool, args string
		failed     bool
	}{
		{"chain", `{"steps":[{"fn":"shop.echo","args":{"text":"x"}}]}`, false},
		{"chain", `{"steps":[{"fn":"shop.nope"}]}`, true},
		{"chain", `{"lite":true,"trace":"full","steps":[{"fn":"shop.nope"}]}`, true},
		{"search", `{"query":"echo"}`, false},
		{"search", `{"query":7}`, true},
	} {
		result, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: call.tool, Arguments: json.RawMessage(call.args)})
		if err != nil {
			t.Fatal(err)
		}
		text := mcptest.TextOf(t, result)
		id, asked := gjson.Get(text, "request"), strings.Contains(call.args, `"trace":"full"`)
		if result.IsError != call.failed || id.Exists() != asked || gjson.Get(text, "run").Exists() || len(result.Meta) > 0 ||
			asked && len(log.requests(id.Str)) != 1 {
			t.Errorf("%s %s: _meta %v, answer %s, %d log lines; want a request and one log line only if asked (%t), no run and no _meta",
				call.tool, call.args, result.Meta, text, len(log.requests(id.Str)), asked)
		}
	}
}

// TestNoChainID: without telemetry there are no ids.
func TestNoChainID(t *testing.T) {
	t.Parallel()
	s := servePassThrough(t, newUpstream(t, "a", false))
	client, sent := connectRecording(t, s.http(t, reader), "", "2025-11-25")
	for _, tool := range []string{"info", "shop_echo", "a_exact"} {
		result, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		if id := sent.idOf(t, result); id != "" {
			t.Errorf("%s: the response has the id %s, want none", tool, id)
		}
	}
}
