package peers

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

// result is what was measured of an arm at a work.
type result struct {
	took      []float64     // milliseconds, each time that the work was done, in all rounds
	medians   []float64     // milliseconds, one for each round
	rates     []float64     // how often a second the work was done, one for each round
	cpu       time.Duration // of the arm's processes
	clientCPU time.Duration
	errors    int
	inRow     int    // errors since the last right answer
	fault     string // the first error
}

// maxErrors in a row are enough: the arm does not get the work any more.
const maxErrors = 3

// plan is how long is measured.
type plan struct {
	rounds int
	block  time.Duration // for an arm and a work in a round; the last time begins within it
}

// measure has the arms do all works by turns. Another arm begins in each round, and the first round is only to warm up.
func measure(ctx context.Context, arms []*arm, p plan) error {
	for round := range p.rounds + 1 {
		for i := range works {
			for j := range arms {
				a := arms[(round+j)%len(arms)]
				if r := a.results[works[i].key]; r == nil || r.inRow >= maxErrors || a.fault != "" {
					continue
				}
				a.block(ctx, &works[i], p.block, round > 0)
				if err := ctx.Err(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// block has the arm do w again and again for so long, at least once. Errors count also when it only warms up.
func (a *arm) block(ctx context.Context, w *work, long time.Duration, count bool) {
	r := a.results[w.key]
	before, clientBefore := a.usage()
	began := time.Now()
	took := a.repeat(ctx, w, long)
	elapsed := time.Since(began)
	after, clientAfter := a.usage()
	if !count || len(took) == 0 {
		return
	}
	r.took = append(r.took, took...)
	r.medians = append(r.medians, quantile(took, 0.5))
	r.rates = append(r.rates, float64(len(took))/elapsed.Seconds())
	r.cpu += after - before
	r.clientCPU += clientAfter - clientBefore
}

// repeat has all clients of w do it, each again as soon as it has the answer, and returns how long each time took, in milliseconds.
func (a *arm) repeat(ctx context.Context, w *work, long time.Duration) (took []float64) {
	var mu sync.Mutex
	r := a.results[w.key]
	end := time.Now().Add(long)
	var all sync.WaitGroup
	for client := range max(1, w.clients) {
		all.Go(func() {
			for first := true; first || time.Now().Before(end); first = false {
				t, err := a.do(ctx, w, client)
				mu.Lock()
				if err != nil && r.fault == "" {
					r.fault = oneLine(err)
				}
				if err != nil {
					r.errors++
					r.inRow++
				} else {
					r.inRow = 0
					took = append(took, millis(t))
				}
				stop := r.inRow >= maxErrors
				mu.Unlock()
				if stop {
					return
				}
			}
		})
	}
	all.Wait()
	return took
}

// usage is the time of the processor that the arm's processes and this one have used; 0 where the system does not tell.
func (a *arm) usage() (arm, client time.Duration) {
	if a.process != nil {
		if u, err := a.process.Usage(); err == nil {
			arm = u.CPU
		}
	}
	if u, err := proc.Self(); err == nil {
		client = u.CPU
	}
	return arm, client
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// quantile is the value below which the share q of values in any order lies; 0 if there are none.
func quantile(values []float64, q float64) float64 {
	return report.Quantile(slices.Sorted(slices.Values(values)), q)
}

// ratios are those of a to b by round, as far as both have rounds.
func ratios(a, b []float64) []float64 {
	all := make([]float64, min(len(a), len(b)))
	for i := range all {
		all[i] = a[i] / b[i]
	}
	return all
}
