package history_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/onecall-mcp/onecall/internal/history"
)

// TestLastHourNamesTenChains: runs without a name, however many, take no place among the ten chains.
func TestLastHourNamesTenChains(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newTestJournal(t)
		for i := range 11 {
			p.begin(fmt.Sprintf("caller-%02d", i), "").Answered(1, 1)
			p.begin("alice", fmt.Sprintf("chain-%02d", i)).Answered(1, 1)
		}
		hour, err := history.LastHour(t.Context(), p.Journal, "")
		if err != nil {
			t.Fatal(err)
		}
		if hour.Count != 22 || len(hour.Chains) != 10 {
			t.Errorf("got %d runs and the chains %+v, want 22 runs and 10 chains", hour.Count, hour.Chains)
		}
		for _, s := range hour.Chains {
			if s.Name == "" {
				t.Errorf("the chains contain one without a name: %+v", s)
			}
		}
	})
}
