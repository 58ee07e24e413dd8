package lock_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/internal/lock"
)

// TestRulesAreDocumented compares the table of rules with that of the page.
func TestRulesAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/lock.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	want.WriteString("| rule | what has changed | chains that it breaks |\n|---|---|---|\n")
	for _, row := range lock.Rules {
		fmt.Fprintf(&want, "| `%s` | %s | %s |\n", row.Rule, row.Means, row.Breaks)
	}
	if !strings.Contains(string(page), want.String()+"\n") {
		t.Errorf("docs/lock.md does not have the table of rules:\n%s", want.String())
	}
}
