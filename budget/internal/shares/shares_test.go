package shares_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/budget/internal/shares"
)

// TestShares compares Shares with a map of the bytes of each owner.
func TestShares(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var s shares.Shares
		model := map[string]int64{}
		for range rapid.IntRange(0, 50).Draw(t, "steps") {
			owner := rapid.SampledFrom([]string{"", "a", "b", "c", "d"}).Draw(t, "owner")
			bytes := rapid.Int64Range(-model[owner], 100).Draw(t, "bytes")
			s.Add(owner, bytes)
			if model[owner] += bytes; model[owner] == 0 {
				delete(model, owner)
			}
			var total, maximum int64
			for _, share := range model {
				total, maximum = total+share, max(maximum, share)
			}
			largest, ok := s.Largest()
			if s.Total() != total || ok != (len(model) > 0) || ok && model[largest] != maximum {
				t.Fatalf("%v: Total is %d, Largest is %q (%t); want %d and, if any, an owner of %d", model, s.Total(), largest, ok, total, maximum)
			}
			for _, owner := range []string{"", "a", "b", "x"} {
				want := len(model) == 0 || len(model) == 1 && model[owner] > 0
				if s.Alone(owner) != want {
					t.Fatalf("%v: Alone(%q) returns %t, want %t", model, owner, !want, want)
				}
			}
		}
	})
}
