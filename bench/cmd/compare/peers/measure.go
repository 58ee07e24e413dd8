package peers

import (
	"context"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

// result holds what was measured of an arm at one piece of work.
type result struct {
	took      []float64     // milliseconds, for each time the work was done, in all rounds
	medians   []float64     // milliseconds, one for each round
	rates     []float64     // how often the work was done per second, one number for each round
	cpu       time.Duration // the processor time of the arm's processes
	clientCPU time.Duration
	errors    int
	inRow     int    // errors since the last correct answer
	fault     string // the first error
}

// maxErrors is the number of errors in a row after which the arm no longer gets the work.
const maxErrors = 3

// plan says how long to measure.
type plan struct {
	rounds int
	block  time.Duration // how long an arm repeats a piece of work in a round; the last repetition begins within that time
}

// rounds has the arms take turns at each piece of work. The first round is only for warming up.
func (e *era) rounds(ctx context.Context, p plan) {
	for round := range p.rounds + 1 {
		for i := range works {
			harness.Turn(round, len(e.arms), func(j int) {
				a := e.arms[j]
				if r := a.results[works[i].key]; r != nil && r.inRow < maxErrors && a.fault == "" {
					a.block(ctx, &works[i], p.block, round > 0)
				}
				harness.Check(ctx.Err())
			})
		}
	}
}

// block repeats w on the arm for a duration, at least once. Errors count even while warming up.
func (a *running) block(ctx context.Context, w *work, duration time.Duration, count bool) {
	r := a.results[w.key]
	before, clientBefore := a.usage()
	began := time.Now()
	took := a.repeat(ctx, w, duration)
	elapsed := time.Since(began)
	after, clientAfter := a.usage()
	if !count || len(took) == 0 {
		return
	}
	r.took = append(r.took, took...)
	r.medians = append(r.medians, report.Quantile(took, 0.5))
	r.rates = append(r.rates, float64(len(took))/elapsed.Seconds())
	r.cpu += after - before
	r.clientCPU += clientAfter - clientBefore
}

// repeat has all clients of w repeat it, each as soon as it has the answer, and returns the time of each repetition in milliseconds.
func (a *running) repeat(ctx context.Context, w *work, duration time.Duration) (took []float64) {
	var mu sync.Mutex
	r := a.results[w.key]
	end := time.Now().Add(duration)
	var all sync.WaitGroup
	for client := range max(1, w.clients) {
		all.Go(func() {
			for first, stop := true, false; !stop && (first || time.Now().Before(end)); first = false {
				t, err := a.do(ctx, w, client)
				mu.Lock()
				if err == nil {
					r.inRow = 0
					took = append(took, millis(t))
				} else if r.errors, r.inRow = r.errors+1, r.inRow+1; r.fault == "" {
					r.fault = harness.OneLine(err)
				}
				stop = r.inRow >= maxErrors
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return took
}

// usage returns the processor time that the arm's processes and this one have used; 0 if the system does not report it.
func (a *running) usage() (arm, client time.Duration) {
	if a.process != nil {
		u, _ := a.process.Usage()
		arm = u.CPU
	}
	u, _ := proc.Self()
	return arm, u.CPU
}

// result returns what was measured of the arm at w, or nil and the reason why there is nothing.
func (a *running) result(w *work) (r *result, why string) {
	switch r = a.results[w.key]; {
	case r != nil && len(r.took) > 0 && r.inRow < maxErrors:
		return r, ""
	case r != nil && r.fault != "":
		return nil, "failed: " + r.fault
	case a.fault != "":
		return nil, "not measured"
	default:
		return nil, "–"
	}
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// ratios returns the ratios of a to b by round, for the rounds that both have.
func ratios(a, b []float64) []float64 {
	all := make([]float64, min(len(a), len(b)))
	for i := range all {
		all[i] = a[i] / b[i]
	}
	return all
}
