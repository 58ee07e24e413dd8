package mcp

import (
	"encoding/json"
	"testing"

	"github.com/onecall-mcp/onecall/budget"
)

// TestToolSizes holds the own tools to what they may cost.
func TestToolSizes(t *testing.T) {
	t.Parallel()
	counter, err := budget.NewCounter("", 0)
	if err != nil {
		t.Fatal(err)
	}
	most := map[string]int{"chain": 450, "search": 110, "info": 40}
	for _, tool := range (&face{}).owned() {
		listed, err := json.Marshal(tool.Tool)
		if err != nil {
			t.Fatal(err)
		}
		n := counter.Count(listed, -1)
		t.Logf("%s: %d tokens", tool.Name, n)
		if n > most[tool.Name] {
			t.Errorf("%s has %d tokens, more than %d", tool.Name, n, most[tool.Name])
		}
	}
	if n := counter.Count([]byte(instructions), -1); n > 120 {
		t.Errorf("the instructions have %d tokens, more than 120", n)
	} else {
		t.Logf("instructions: %d tokens", n)
	}
}
