package bench

import (
	"slices"
	"testing"
	"time"
)

// arm is one side of a comparison: it does its work n times, and checks what came of it.
type arm func(b *testing.B, n int)

// compare runs two arms by turns, rounds times each, in the same run, and reports the median of the ratios of their
// times; the arm that begins changes from round to round.
func compare(b *testing.B, rounds, n int, baseline, measured arm) (ratio float64) {
	b.Helper()
	timed := func(a arm) time.Duration {
		started := time.Now()
		a(b, n)
		return time.Since(started)
	}
	baseline(b, n/10+1) // warm up
	measured(b, n/10+1)
	var ratios []float64
	var base, candidate []time.Duration
	for round := range rounds {
		var first, second time.Duration
		if round%2 == 0 {
			first, second = timed(baseline), timed(measured)
		} else {
			second, first = timed(measured), timed(baseline)
		}
		base, candidate = append(base, first/time.Duration(n)), append(candidate, second/time.Duration(n))
		ratios = append(ratios, float64(second)/float64(first))
	}
	slices.Sort(ratios)
	slices.Sort(base)
	slices.Sort(candidate)
	b.ReportMetric(ratios[rounds/2], "ratio")
	b.ReportMetric(float64(base[rounds/2].Microseconds()), "baseline-µs/op")
	b.ReportMetric(float64(candidate[rounds/2].Microseconds()), "measured-µs/op")
	return ratios[rounds/2]
}
