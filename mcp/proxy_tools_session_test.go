package mcp_test

import (
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
)

// toolsOf returns the names of the tools that a client lists, without onecall's own.
func toolsOf(t testing.TB, c *sdk.ClientSession) string {
	t.Helper()
	list, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		if !slices.Contains([]string{"chain", "info", "search"}, tool.Name) && !strings.HasPrefix(tool.Name, "shop_") {
			names = append(names, tool.Name)
		}
	}
	return strings.Join(names, " ")
}

// TestPassToolsOfSession: the tools of a session are those of its own sessions with upstreams. It lacks tools for which the client lacks
// the capability, and has those that the upstream adds in the session, which no other client has.
func TestPassToolsOfSession(t *testing.T) {
	t.Parallel()
	s := servePassThrough(t, newGrowingUpstream(t, "g"))
	url := s.http(t, reader)
	h, o := capableClient("ann")
	c := connectHTTP(t, url, "2025-11-25", o)
	other := connectHTTP(t, url, "2025-11-25", nil)
	if got, want := toolsOf(t, c), "grow sampler"; got != want {
		t.Errorf("a client with sampling sees %s, want %s", got, want)
	}
	if got := toolsOf(t, other); got != "grow" {
		t.Errorf("a client without sampling sees %s, want grow", got)
	}
	if _, err := other.CallTool(t.Context(), &sdk.CallToolParams{Name: "sampler"}); err == nil ||
		!strings.Contains(err.Error(), `unknown tool "sampler"`) {
		t.Errorf("a call of a tool that is not listed: %v, want unknown tool \"sampler\"", err)
	}
	if text, failed := mcptest.Ask(t, c, "grow", `{"word":"tall"}`); failed {
		t.Fatalf("grow: %s, want success", text)
	}
	h.await(t, "tools")
	if got, want := toolsOf(t, c), "grow grown_tall sampler"; got != want {
		t.Errorf("after grow the client sees %s, want %s", got, want)
	}
	if text, _ := mcptest.Ask(t, c, "grown_tall", `{}`); text != "I am tall" {
		t.Errorf("the new tool: %s, want I am tall", text)
	}
	if text, _ := mcptest.Ask(t, c, "chain", `{"steps":[{"fn":"grown_tall"}],"lite":true}`); text != `"I am tall"` {
		t.Errorf("the new tool in a chain: %s, want \"I am tall\"", text)
	}
	if text, _ := mcptest.Ask(t, c, "search", `{"query":"grown tall"}`); !strings.Contains(text, "g.grown_tall") {
		t.Errorf("search: %s, want g.grown_tall in it", text)
	}
	if got := toolsOf(t, other); got != "grow" {
		t.Errorf("another client sees %s, want grow", got)
	}
	if text, _ := mcptest.Ask(t, other, "chain", `{"steps":[{"fn":"g.grown_tall"}]}`); !strings.Contains(text, "unknown_function") ||
		strings.Contains(text, `"nearest":["g.grown_tall"`) {
		t.Errorf("another client's chain: %s, want unknown_function, and not g.grown_tall as nearest", text)
	}
	before := h.count("tools")
	if text, failed := mcptest.Ask(t, c, "grow", `{"word":"written"}`); failed {
		t.Fatalf("grow: %s, want success", text)
	}
	if text, _ := mcptest.Ask(t, c, "grow", `{"word":"wide"}`); !strings.Contains(text, "grows") {
		t.Fatalf("grow: %s, want grows in it", text)
	}
	for h.count("tools") == before {
		<-h.news
	}
	if got, want := toolsOf(t, c), "grow grown_tall grown_wide sampler"; got != want {
		t.Errorf("a caller that may only read sees %s, want %s", got, want)
	}
}

// TestPassToolsWithoutSessions: clients without sessions share a session with the upstream, and its list of tools, if servers may ask the
// same of them.
func TestPassToolsWithoutSessions(t *testing.T) {
	t.Parallel()
	s := servePassThrough(t, newGrowingUpstream(t, "g"))
	url := s.http(t, reader)
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		_, o := capableClient("ann")
		if got := toolsOf(t, connectHTTP(t, url, version, o)); got != "grow sampler" {
			t.Errorf("%s: tools %s, want grow sampler", version, got)
		}
		if got := toolsOf(t, connectHTTP(t, url, version, nil)); got != "grow" {
			t.Errorf("%s: tools of a client that cannot sample %s, want grow", version, got)
		}
	}
}
