package mcp_test

import (
	"testing"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/steps"
)

// TestToolSizes checks that onecall's own tools do not cost more tokens than allowed.
func TestToolSizes(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	c, hello := newRawClient(t, s.http(t, mcptest.Caller("admin", steps.TierAdmin)), "chain", statefulVersion)
	count := func(text string) int { return s.options.Counter.Count([]byte(text), -1) }
	total := 0
	for _, tool := range gjson.Get(messageIn(c.message(t, "tools/list", `{}`)), "result.tools").Array() {
		n := count(tool.Raw)
		t.Logf("%s: %d tokens", tool.Get("name"), n)
		total += n
		if n := len(tool.Get("description").Str); n > 2<<10 {
			t.Errorf("the description of %s has %d bytes, want at most 2 KiB, which is all that some hosts show", tool.Get("name"), n)
		}
	}
	if total < 100 || total >= 600 {
		t.Errorf("onecall's own tools have %d tokens, want 100 to 599", total)
	}
	instructions := gjson.Get(messageIn(hello), "result.instructions").Str
	if n := utf8.RuneCountInString(instructions); n < 100 || n > 512 {
		t.Errorf("the instructions have %d characters, want 100 to 512", n)
	}
	if n := count(instructions); n > 120 {
		t.Errorf("the instructions have %d tokens, want at most 120", n)
	}
}
