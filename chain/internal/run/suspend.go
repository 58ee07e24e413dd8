package run

import (
	"context"
	"slices"
	"sync"
	"time"
)

// pauses counts the work under way in a run. The run is suspended when it only pauses, and even the pause that ends first still takes at
// least min. When it is resumed, what it has done comes from the journal. It is not suspended after a failure, since a resume would make
// the failed call again. A nil *pauses counts nothing.
type pauses struct {
	min            time.Duration      // the shortest pause that suspends the run: a shorter one is not worth a resume
	suspend        context.CancelFunc // ends the context of the steps
	mustNotSuspend func() bool        // reports whether the run must not be suspended now

	mu     sync.Mutex
	atWork int         // goroutines that neither pause nor wait for others, and all else that needs this process
	ends   []time.Time // when the pauses under way end
	until  time.Time   // the end of the first of ends, if the run is suspended; zero: it is not
}

// watchPauses returns the context of the steps, which ends when the run is suspended.
func (r *Run) watchPauses(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.ledger.Record == nil || !r.plan.MayBeSuspended(r.o.Suspend) {
		return ctx, func() {}
	}
	watched, suspend := context.WithCancel(ctx)
	r.pauses = &pauses{min: r.o.Suspend, suspend: suspend, atWork: 1, mustNotSuspend: func() bool {
		return ctx.Err() != nil || r.exhausted.Load() || r.mustStop() || r.ledger.Record.DroppedResult()
	}}
	return watched, suspend
}

// add adds n to atWork. It suspends the run if only long pauses are left.
func (p *pauses) add(n int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.atWork += n; p.atWork > 0 || len(p.ends) == 0 || !p.until.IsZero() || p.mustNotSuspend() {
		return
	}
	if first := slices.MinFunc(p.ends, time.Time.Compare); time.Until(first) >= p.min {
		p.until = first
		p.suspend()
	}
}

// begin begins a pause of a goroutine that was at work.
func (p *pauses) begin(end time.Time) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.ends = append(p.ends, end)
	p.mu.Unlock()
	p.add(-1)
}

// end ends a pause.
func (p *pauses) end(end time.Time) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.ends, end)
	p.ends = slices.Delete(p.ends, i, i+1)
	p.atWork++
}

// suspendedUntil returns when a suspended run continues; zero: it was not suspended.
func (p *pauses) suspendedUntil() time.Time {
	if p == nil {
		return time.Time{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.until
}

func (p *pauses) suspended() bool { return !p.suspendedUntil().IsZero() }

// pauseAfter pauses until d after the last call of a round or attempt. If that call was made before the run was resumed, some of the
// pause is over. The journal does not record a round without calls, so the run is not suspended in the pause after it: a resume would begin
// the pause again.
func (r *Run) pauseAfter(ctx context.Context, d time.Duration, lastCall time.Time) error {
	switch {
	case r.ledger.Rehearsal:
		return ctx.Err()
	case lastCall.IsZero():
		return sleep(ctx, d)
	}
	end := lastCall.Add(d)
	if d = time.Until(end); d <= 0 {
		return ctx.Err()
	}
	r.pauses.begin(end)
	defer r.pauses.end(end)
	return sleep(ctx, d)
}
