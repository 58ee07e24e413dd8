package mcp

import (
	"testing"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/budget"
)

// TestToolSizes holds the own tools to what they may cost.
func TestToolSizes(t *testing.T) {
	t.Parallel()
	counter, err := budget.NewCounter("", 0)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, tool := range (&toolset{}).listBuiltins(reach{writes: true, destroys: true, outside: true}) {
		n := counter.Count(tool.listed, -1)
		t.Logf("%s: %d tokens", tool.Name, n)
		total += n
		if len(tool.Description) > 2<<10 {
			t.Errorf("the description of %s has %d bytes, of which some hosts show 2 KiB", tool.Name, len(tool.Description))
		}
	}
	if total >= 600 {
		t.Errorf("the own tools have %d tokens, not less than 600", total)
	}
	if n := utf8.RuneCountInString(instructions); n > 512 {
		t.Errorf("the instructions have %d characters, of which some hosts take 512", n)
	}
	if n := counter.Count([]byte(instructions), -1); n > 120 {
		t.Errorf("the instructions have %d tokens, more than 120", n)
	} else {
		t.Logf("instructions: %d tokens", n)
	}
}
