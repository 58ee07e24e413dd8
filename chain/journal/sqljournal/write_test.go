//go:build unix

package sqljournal_test

import (
	"slices"
	"testing"

	"github.com/onecall-mcp/onecall/chain/journal"
)

func mustWrite(t testing.TB, d journal.Driver, list ...journal.Write) {
	t.Helper()
	if refused, err := d.Write(t.Context(), list); err != nil || slices.Contains(refused, true) {
		t.Fatalf("refused %v, error %v; want neither", refused, err)
	}
}
