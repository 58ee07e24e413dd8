package transport

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// until waits for something that comes; the test's own time is the bound.
func until(there func() bool) {
	for !there() {
		time.Sleep(time.Millisecond)
	}
}

// badges knows callers by the names that they give for tokens.
type badges map[string]*steps.Caller

func (b badges) Verify(_ context.Context, token string) (*steps.Caller, error) {
	switch caller := b[token]; {
	case token == "scopeless":
		f := fault.New(fault.Denied, "no scope")
		f.Err = steps.ErrScope
		return nil, f
	case token == "unknowable":
		return nil, fault.New(fault.Unavailable, "the keys of https://id.example.com cannot be had")
	case caller == nil:
		return nil, fault.New(fault.Denied, "unknown")
	default:
		return caller, nil
	}
}

var staff = badges{
	"ann": {ID: "token:ann", Rights: steps.Rights{Tier: steps.TierReadWrite}},
	"bob": {ID: "token:bob", Rights: steps.Rights{Tier: steps.TierRead, Functions: "shop.item.* shop.slow"}},
	"eve": {ID: "token:eve", Rights: steps.Rights{Tier: steps.TierReadWrite}},
}

type header map[string]string

func (h header) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range h {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	return http.DefaultTransport.RoundTrip(r)
}

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// send posts a message, or with no body makes a request of another method, and gives the answer with its body read.
func sendTo(t testing.TB, method, url, body string, headers header) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range headers {
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Set(name, value)
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(text)
}

func caller(id string, tier steps.Tier) *steps.Caller {
	return &steps.Caller{ID: id, Rights: steps.Rights{Tier: tier}}
}

func connect(t testing.TB, transport sdk.Transport, o *sdk.ClientOptions, version string) *sdk.ClientSession {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o)
	session, err := client.Connect(t.Context(), transport, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// ask calls a tool and gives the text of its answer.
func ask(t testing.TB, session *sdk.ClientSession, tool, args string) (text string, failed bool) {
	t.Helper()
	result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
	if err != nil {
		t.Fatalf("%s %s: %v", tool, args, err)
	}
	return textOf(t, result), result.IsError
}

func textOf(t testing.TB, result *sdk.CallToolResult) string {
	t.Helper()
	if len(result.Content) != 1 || result.StructuredContent != nil {
		t.Fatalf("%d content blocks, structured %v", len(result.Content), result.StructuredContent)
	}
	return result.Content[0].(*sdk.TextContent).Text
}
