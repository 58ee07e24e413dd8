package mcp_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// What a failed tool says stands once: the first text is the message, and the body is what else it says.
func TestFailedTools(t *testing.T) {
	t.Parallel()
	var result string
	s := openAnswering(t, &result)
	for _, test := range []struct{ result, message, body string }{
		{`"content":[{"type":"text","text":" no such shelf\n"}]`, "no such shelf", ""},
		{`"content":[{"type":"text","text":""},{"type":"text","text":"one"},{"type":"text","text":"two"}]`, "one", `["","two"]`},
		{`"content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]`, "one", `"two"`},
		{`"content":[{"type":"text","text":"one"}],"structuredContent":{"code":5}`, "one", `{"code":5}`},
		{`"content":[{"type":"text","text":"one"}],"structuredContent":{"error":{"message":"one"}}`, "one", ""},
		{`"content":[{"type":"text","text":"{\"message\":\"closed\",\"code\":5}"}]`, "closed", `{"message":"closed","code":5}`},
		{`"content":[],"structuredContent":{"error":{"message":"closed","code":5}}`, "closed", `{"error":{"message":"closed","code":5}}`},
		{`"content":[],"structuredContent":{"error":{"message":"closed"}}`, "closed", ""},
		{`"structuredContent":{"error":"closed"}`, "closed", ""},
		{`"toolResult":{"error":"closed","n":1}`, "closed", `{"error":"closed","n":1}`},
		{`"content":"closed"`, "closed", ""},
		{`"content":[{"type":"text","text":"[1,2]"}]`, "net.a failed; what it says is in body", "[1,2]"},
		{`"content":[]`, "net.a failed without saying why", ""},
	} {
		result = `{"isError":true,` + test.result + `}`
		if f := mustFail(t.Context(), t, s, "net.a", `{}`, fault.FunctionFailed); f.Message != test.message || string(f.Body) != test.body {
			t.Errorf("%s: got message %q, body %s, want %q, %s", test.result, f.Message, f.Body, test.message, test.body)
		}
	}
}

// A long text of a failure shows its beginning and its end, and a token fetches the whole. A tool's error of JSON-RPC does so too.
func TestLongFailures(t *testing.T) {
	t.Parallel()
	long := "begin " + strings.Repeat("é", 10_000) + " end"
	server := &rawServer{call: func(w http.ResponseWriter, r *http.Request, id string) {
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("X-User") != "" {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":%q}}`, id, long)
			return
		}
		answerJSON(w, id, fmt.Sprintf(`{"isError":true,"content":[{"type":"text","text":%q}]}`, long))
	}}
	s := openRaw(t, server, mcpsource.Options{HTTPClient: &http.Client{Transport: userHeader{}}}, toolList("a"))
	for name, user := range map[string]any{"isError": nil, "error": "ann"} {
		var kept string
		ctx := steps.WithCallbacks(context.WithValue(t.Context(), userKey{}, user), &steps.Callbacks{
			Keep: func(_ context.Context, value []byte) (string, error) {
				kept = gjson.ParseBytes(value).String()
				return "oc1_token", nil
			},
		})
		f := mustFail(ctx, t, s, "net.a", `{}`, fault.FunctionFailed)
		if !strings.Contains(f.Message, "begin é") || !strings.Contains(f.Message, "é end") || !strings.Contains(f.Message, "oc1_token") ||
			len(f.Message) > 3000 || f.Body != nil || kept != long {
			t.Errorf("%s: got %q, body %s, and kept %d bytes, want both ends and a token of %d", name, f.Message, f.Body, len(kept), len(long))
		}
		if f := mustFail(t.Context(), t, s, "net.a", `{}`, fault.FunctionFailed); strings.Contains(f.Message, "token") {
			t.Errorf("%s: got %q, want no token without a store", name, f.Message)
		}
	}
}
