package chain

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/chain/journal"
)

// maxDoublings bounds the doublings that mayBeSuspended computes, so that they do not overflow: the longest backoffMs doubled that often is
// more than a century.
const maxDoublings = 20

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
func (r *run) watchPauses(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.record == nil || !r.mayBeSuspended(r.plan) {
		return ctx, func() {}
	}
	watched, suspend := context.WithCancel(ctx)
	r.pauses = &pauses{min: r.suspend, suspend: suspend, atWork: 1, mustNotSuspend: func() bool {
		return ctx.Err() != nil || r.exhausted.Load() || r.mustStop() || r.record.DroppedResult()
	}}
	return watched, suspend
}

// mayBeSuspended reports whether the plan has a pause that is long enough. A run that undoes what it has done is not suspended: if it is
// cancelled in a pause, it must undo at once.
func (s *requestState) mayBeSuspended(p *plan.Plan) bool {
	return s.suspend > 0 && !p.Undoes() && s.o.Journal != nil && slices.ContainsFunc(p.Steps, func(step *plan.Step) bool {
		return step.Until != nil && step.Delay >= s.suspend || step.Inline != nil && s.mayBeSuspended(step.Inline) ||
			step.Fn != nil && step.MaxRetries > 0 && step.Backoff<<min(step.MaxRetries-1, maxDoublings) >= s.suspend
	})
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

func (r *run) isSuspended() bool { return !r.pauses.suspendedUntil().IsZero() }

// pauseAfter pauses until d after the last call of a round or attempt. If that call was made before the run was resumed, some of the
// pause is over. The journal does not record a round without calls, so the run is not suspended in the pause after it: a resume would begin
// the pause again.
func (r *run) pauseAfter(ctx context.Context, d time.Duration, lastCall time.Time) error {
	switch {
	case r.rehearsal:
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

// awaitsRetry reports whether the run was suspended between two attempts at a call.
func (r *run) awaitsRetry(p *plan.Step, previous *journal.PastCall) bool {
	return previous != nil && r.record.WasSuspended() && previous.Ended > 0 && isTransient(previous.Code) &&
		previous.Attempt < p.MaxRetries
}
