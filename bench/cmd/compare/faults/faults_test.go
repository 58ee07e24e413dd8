package faults

import (
	"testing"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

// TestFaults lets faults of each kind strike. With onecall no write may be made twice, lost or told wrongly, and each run must go on. A
// program that keeps nothing makes writes twice, which the log must show.
func TestFaults(t *testing.T) {
	t.Parallel()
	tools := t.TempDir()
	for _, a := range chosen([]string{"serve", "run", "loop"}) {
		t.Run(a.key, func(t *testing.T) { // one after the other, as each builds the program
			b := harness.New(&report.Options{Root: "../../../..", Tools: tools, Log: t.Logf}, &report.Section{})
			defer b.Close()
			var r *result
			if err := harness.Try(func() { r = a.measure(t.Context(), b, 50) }); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d runs: %d outcomes were looked up", r.trials, r.asks)
			if bad := r.twice + r.lost + r.wrong + r.stuck; (bad > 0) == a.ours {
				t.Errorf("%d writes twice, %d lost, %d outcomes wrong, %d runs stuck: %q", r.twice, r.lost, r.wrong, r.stuck, r.notes)
			}
		})
	}
}
