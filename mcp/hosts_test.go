package mcp_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/steps"
)

// functionsSource is a source that never changes.
type functionsSource []steps.Function

func (s functionsSource) Functions() []steps.Function { return s }
func (functionsSource) Close() error                  { return nil }

// messageIn returns the message in an HTTP response, which is an event or the message alone.
func messageIn(text string) string {
	_, rest, _ := strings.Cut(text, `{"jsonrpc"`)
	return `{"jsonrpc"` + rest
}

// echoFunction returns a function that answers with its arguments.
func echoFunction(spec steps.Spec) steps.Function {
	return steps.Function{Spec: spec, Call: func(_ context.Context, args []byte) ([]byte, error) { return append([]byte(nil), args...), nil }}
}

// TestBuiltinToolsOfView: the descriptions of onecall's own tools depend on what their caller may use.
func TestBuiltinToolsOfView(t *testing.T) {
	t.Parallel()
	local := steps.Spec{Name: "a.get", Effect: steps.Read, Local: true}
	for _, test := range []struct {
		name      string
		functions []steps.Spec
		absent    bool // a source whose functions are not known
		caller    *steps.Caller
		want      string
	}{
		{"reads", []steps.Spec{local}, false, writer, `{"openWorldHint":false,"readOnlyHint":true}`},
		{"reads outside", []steps.Spec{local, {Name: "a.fetch", Effect: steps.Read}}, false, writer, `{"openWorldHint":true,"readOnlyHint":true}`},
		{"writes", []steps.Spec{local, {Name: "a.put", Effect: steps.Write, Local: true}}, false, writer, `{"destructiveHint":false,"openWorldHint":false,"readOnlyHint":false}`},
		{"destroys", []steps.Spec{local, {Name: "a.drop", Effect: steps.Destroy}}, false, writer, `{"destructiveHint":true,"openWorldHint":true,"readOnlyHint":false}`},
		{"may not write", []steps.Spec{local, {Name: "a.drop", Effect: steps.Destroy}}, false, reader, `{"openWorldHint":false,"readOnlyHint":true}`},
		{"has unknown functions", []steps.Spec{local}, true, writer, `{"destructiveHint":true,"openWorldHint":true,"readOnlyHint":false}`},
		{"may not write, has unknown functions", []steps.Spec{local}, true, reader, `{"openWorldHint":true,"readOnlyHint":true}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(o *mcp.Options) {
				var err error
				if o.Catalog, err = steps.NewCatalog(nil); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { o.Catalog.Close() })
				var functions functionsSource
				for _, spec := range test.functions {
					functions = append(functions, echoFunction(spec))
				}
				if err := o.Catalog.Add("a", functions); err != nil {
					t.Fatal(err)
				}
				if test.absent {
					if err := o.Catalog.Add("late", &brokenSource{whyBroken("late")}); err != nil {
						t.Fatal(err)
					}
				}
			})
			c, _ := newRawClient(t, s.http(t, test.caller), "chain", statefulVersion)
			list := c.message(t, "tools/list", `{}`)
			tools := gjson.Get(messageIn(list), "result.tools")
			for _, tool := range tools.Array() {
				want := test.want
				if tool.Get("name").Str != "chain" {
					want = `{"readOnlyHint":true}`
				}
				if got := tool.Get("annotations").Raw; got != want {
					t.Errorf("annotations of %s: got %s, want %s", tool.Get("name"), got, want)
				}
				if tool.Get("title").Str == "" || tool.Get("_meta").Raw != `{"anthropic/alwaysLoad":true}` {
					t.Errorf(`got %s, want a title and the _meta {"anthropic/alwaysLoad":true}`, tool.Raw)
				}
			}
			if n := len(tools.Array()); n != 3 {
				t.Errorf("%d tools, want 3", n)
			}
			if listing, err := mcp.Listing(s.options, test.caller.Rights, mcp.SurfaceChain); err != nil ||
				gjson.GetBytes(listing, "tools").Raw != tools.Raw {
				t.Errorf("Listing = %s, %v; want the tools %s", listing, err, tools.Raw)
			}
		})
	}
}

// TestFetchFields: the schema of a tool whose results are large has the fields of a fetch.
func TestFetchFields(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *mcp.Options) {
		grouped(mcp.SurfaceHybrid)(o)
		err := o.Catalog.Add("big", functionsSource{
			echoFunction(steps.Spec{Name: "big.get", Effect: steps.Read, Heavy: "always",
				Input: json.RawMessage(`{"type":"object","properties":{"page":{"type":"string"}}}`)}),
			echoFunction(steps.Spec{Name: "big.part", Effect: steps.Read, Answer: &steps.Excerpt{Keep: []string{"a"}},
				Input: json.RawMessage(`{"type":"object","properties":{"a":{},"b":{}}}`)}),
			echoFunction(steps.Spec{Name: "big.small", Effect: steps.Read, Input: json.RawMessage(`{"type":"object"}`)}),
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	c, _ := newRawClient(t, s.http(t, writer), "hybrid", statefulVersion)
	list := c.message(t, "tools/list", `{}`)
	tools := gjson.Get(messageIn(list), "result.tools")
	keys := func(name string) string {
		var keys []string
		tools.Get(`#(name=="` + name + `").inputSchema.properties`).ForEach(func(key, _ gjson.Result) bool {
			keys = append(keys, key.Str)
			return true
		})
		return strings.Join(keys, " ")
	}
	for name, want := range map[string]string{
		"big_get":   "page continuation_token mode page_size filter_keys query",
		"big_part":  "a b continuation_token mode page page_size filter_keys query",
		"big_small": "",
		"items":     "resource action params lite continuation_token mode page page_size filter_keys query",
	} {
		if got := keys(name); got != want {
			t.Errorf("fields of %s: got %q, want %q", name, got, want)
		}
	}
	if got := tools.Get(`#(name=="big_get").inputSchema.properties.page.type`).Str; got != "string" {
		t.Errorf("the function's own page has the type %s, want string", got)
	}
	if !strings.Contains(keys("chain"), "page_size") {
		t.Errorf("the fields of chain lack page_size: %s", keys("chain"))
	}
	probe, _ := mcptest.Ask(t, s.stdio(t, writer, nil), "big_get", `{"page":"`+strings.Repeat("x", 300)+`"}`)
	if token := gjson.Get(probe, "continuation_token").Str; token == "" {
		t.Errorf("want a probe, got %s", probe)
	}
	client := s.stdio(t, writer, nil)
	part, _ := mcptest.Ask(t, client, "big_part", `{"a":1,"b":2}`)
	left := gjson.Get(part, "left_out")
	if gjson.Get(part, "result").Raw != `{"a":1}` || left.Get("members").Int() != 1 {
		t.Errorf("got %s, want a, and that one member is left out", part)
	}
	whole, _ := mcptest.Ask(t, client, "big_part", `{"mode":"full","continuation_token":`+left.Get("continuation_token").Raw+`}`)
	if got := gjson.Get(whole, "result").Raw; got != `{"a":1,"b":2}` {
		t.Errorf("the token fetches %s, want the whole result", whole)
	}
}
