package mcp_test

import (
	"encoding/json"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/steps"
)

// TestMatrixHasAllFields: the matrix has a path with each member that any of onecall's own tools declares, documents or accepts. A new
// tool or field needs a new path.
func TestMatrixHasAllFields(t *testing.T) {
	t.Parallel()
	declared := map[string]map[string]bool{}
	add := func(tool string, schema []byte) {
		if declared[tool] == nil {
			declared[tool] = map[string]bool{}
		}
		addDeclared(gjson.ParseBytes(schema), gjson.ParseBytes(schema), "", declared[tool])
	}
	s := serve(t, nil)
	c := s.stdio(t, writer, nil)
	list, err := c.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 3 {
		t.Fatalf("want 3 tools, got %+v, %v", list, err)
	}
	for _, tool := range list.Tools {
		input, err := json.Marshal(tool.InputSchema)
		if err != nil {
			t.Fatal(err)
		}
		add(tool.Name, input)
		answer, _ := mcptest.Ask(t, c, "search", `{"names":["`+tool.Name+`"]}`)
		manual := gjson.Get(answer, "onecall."+tool.Name)
		if !manual.IsObject() {
			t.Errorf("the tool %s has no manual: %s", tool.Name, answer)
		}
		if tool.Name == "chain" {
			continue // its manual has several objects, which its schema has, too
		}
		for name := range manual.Map() {
			declared[tool.Name][name] = true
		}
	}
	add("chain", chain.ChainSchema())
	for _, name := range chain.FetchFields() {
		declared["chain"][name] = true
	}
	declared["DISPATCHER"] = dispatcherFields(t)
	for tool, pointers := range declared {
		tried := testedMembers(t, tool)
		for pointer := range pointers {
			if !tried[pointer] {
				t.Errorf("%s: no path of the matrix has %s", tool, pointer)
			}
		}
	}
}

// dispatcherFields returns the fields that a dispatcher declares, and those that its help says it takes.
func dispatcherFields(t *testing.T) map[string]bool {
	t.Helper()
	w := serveWorld(t, matrixCaller("a", steps.TierAdmin, ""), allFunctions, nil)
	c, _ := newRawClient(t, w.url, "dispatch", statefulVersion)
	fields := map[string]bool{"verify": true}
	list := gjson.Get(dataOf(c.message(t, "tools/list", `{}`)), "result.tools")
	if n := list.Get("#").Int(); n < 5 {
		t.Fatalf("%d tools, want at least 5: %s", n, list.Raw)
	}
	for _, tool := range list.Array() {
		if tool.Get("name").Str == "things" {
			schema := tool.Get("inputSchema")
			addDeclared(schema, schema, "", fields)
		}
	}
	refusal := gjson.Get(dataOf(c.call(t, "things", `{"action":"help","nonsense":true}`)), "result.content.0.text").Str
	available := gjson.Get(refusal, "error.available").Array()
	if len(available) < 5 {
		t.Fatalf("%d fields of help in the refusal, want at least 5: %s", len(available), refusal)
	}
	for _, name := range available {
		fields[name.Str] = true
	}
	return fields
}
