package chainfile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// TestLongYAML: YAML whose parsing would take minutes is refused; the same amount of JSON is not.
func TestLongYAML(t *testing.T) {
	t.Parallel()
	var keys strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&keys, "k%d: 1\n", i)
	}
	for _, name := range []string{"", "a.chain.yaml", "a.yml"} {
		if _, faults := Parse(name, []byte(keys.String())); len(faults) != 1 || faults[0].Code != fault.LimitExceeded {
			t.Errorf("%q: got faults %v, want limit_exceeded", name, faults)
		}
	}
	if _, faults := Parse("", []byte("steps: # "+strings.Repeat("x", maxYAML-20)+"\n- expr: 1")); len(faults) > 0 {
		t.Errorf("YAML of the allowed length: got faults %v", faults)
	}
	if text, faults := Parse("", []byte(`{"steps":["`+strings.Repeat("x", maxYAML)+`"]}`)); len(faults) > 0 || len(text.JSON) <= maxYAML {
		t.Errorf("JSON: got %d bytes and faults %v", len(text.JSON), faults)
	}
}
