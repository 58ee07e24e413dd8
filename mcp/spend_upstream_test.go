package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
)

// TestSessionSpendingOfUpstreams: the results of flat tools are counted, and passed on unchanged while the session has tokens left. After
// that they are probes, from which everything can be fetched.
func TestSessionSpendingOfUpstreams(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 500)
	results := map[string]string{
		"text":       `{"content":[{"type":"text","text":"` + long + `"}]}`,
		"both":       `{"content":[{"type":"text","text":"short"}],"structuredContent":{"a":1.10}}`,
		"structured": `{"content":[],"structuredContent":{"a":"` + long + `"}}`,
		"image":      `{"content":[{"type":"text","text":"see"},{"type":"image","data":"` + strings.Repeat("AAAA", 800) + `","mimeType":"image/png"}]}`,
		"resource":   `{"content":[{"type":"resource","resource":{"uri":"a://b","text":"` + long + `"}}]}`,
		"failed":     `{"content":[{"type":"text","text":"` + long + `"}],"isError":true}`,
	}
	b := newUpstream(t, "a", false)
	for name, result := range results {
		b.server.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`),
			OutputSchema: json.RawMessage(`{"type":"object"}`),
			Annotations:  &sdk.ToolAnnotations{ReadOnlyHint: true}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			var r sdk.CallToolResult
			return &r, json.Unmarshal([]byte(result), &r)
		})
	}
	const maximum = 5000
	s := serve(t, func(o *mcp.Options) {
		o.SessionTokens = maximum
		withUpstreams(t, b)(o)
		for name := range results { // the server notifies of each
			for changed := o.Catalog.Changed(); !o.Catalog.Registry().HasName(b.name + "." + name); changed = o.Catalog.Changed() {
				<-changed
			}
		}
	})
	m := newSpend(t, maximum)
	client := legacyStdio(t, s, nil)
	list, err := client.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		if tool.OutputSchema != nil {
			t.Errorf("%s has an output schema, which a probe would not match", tool.Name)
		}
	}
	call := func(tool, args string) *sdk.CallToolResult {
		t.Helper()
		result, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
		if err != nil {
			t.Fatal(tool, err)
		}
		return result
	}
	checkCounted := func(texts ...string) {
		t.Helper()
		for _, text := range texts {
			m.tokens += m.counter.Count([]byte(text), -1)
		}
		info := mcptest.TextOf(t, call("info", `{}`))
		if got := gjson.Get(info, "session.tokens").Int(); got != int64(m.tokens) {
			t.Errorf("want session.tokens %d: %s", m.tokens, info)
		}
		m.tokens += m.counter.Count([]byte(info), -1)
	}
	// The call of "failed" uses up the tokens.
	for name, text := range map[string]string{"text": long, "both": `{"a":1.1}`, "structured": `{"a":"` + long + `"}`, "image": "see",
		"resource": long} {
		got, err := json.Marshal(call(name, `{}`))
		if err != nil || !equalJSON(got, results[name]) {
			t.Errorf("the result of %s is %.300s, %v, want %.300s", name, got, err, results[name])
		}
		checkCounted(text)
	}
	for m.tokens < maximum {
		if got := call("failed", `{}`); !got.IsError || len(mcptest.TextOf(t, got)) != len(long) {
			t.Errorf("got %+v, want the failure unchanged", got)
		}
		checkCounted(long)
	}
	if got := call("both", `{}`); got.StructuredContent == nil {
		t.Errorf("got %+v, want the small answer unchanged", got)
	}
	checkCounted(`{"a":1.1}`)
	for name, path := range map[string]string{"text": "@this", "structured": "a", "image": "1.data", "resource": "0.resource.text"} {
		probe := mcptest.TextOf(t, call(name, `{}`))
		if m.counter.Count([]byte(probe), -1) > smallAnswer {
			t.Errorf("%s: want a probe of at most %d tokens, got %s", name, smallAnswer, probe)
		}
		checkCounted(probe)
		fetched := mcptest.TextOf(t, call("chain", fmt.Sprintf(`{"lite":true,"mode":"full","continuation_token":%q}`,
			gjson.Get(probe, "continuation_token").Str)))
		checkCounted(fetched)
		want := gjson.Get(results[name], "content")
		switch name {
		case "text":
			want = want.Get("0.text")
		case "structured":
			want = gjson.Get(results[name], "structuredContent.a")
		default:
			want = want.Get(path)
		}
		if got := gjson.Get(fetched, path).String(); got != want.String() && strings.Trim(got, `"`) != want.String() {
			t.Errorf("%s: fetched %.200s, want %.200s", name, fetched, want)
		}
	}
	failed := call("failed", `{}`)
	if text := mcptest.TextOf(t, failed); !failed.IsError || m.counter.Count([]byte(text), -1) > smallAnswer ||
		gjson.Get(text, "error.code").Str != "function_failed" {
		t.Errorf("want a small failure, got %+v", failed)
	}
	checkCounted(mcptest.TextOf(t, failed))
	if got := mcptest.TextOf(t, call("a_ask", `{"by":"x"}`)); !strings.HasPrefix(got, "refused: ") {
		t.Errorf("a question of the upstream: %s, want refused", got)
	}
}

// equalJSON reports whether two texts are the same JSON value.
func equalJSON(a []byte, b string) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	return fmt.Sprint(x) == fmt.Sprint(y)
}
