package chain

import (
	"context"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// handedState returns the state of a run that was handed to workers. It returns nil if the run was not handed over or has continued
// elsewhere since, or if its answer is no longer known or needs more rights than the caller has.
func (s *request) handedState(ctx context.Context, row *journal.Row) *DetachedRun {
	if s.detach.Workers == nil || row.HandoverLease == 0 {
		return nil
	}
	w := s.handedRun(row.ID, row.HandoverLease)
	r := &DetachedRun{Row: *row, Done: -1, request: s, carrier: w}
	hasEnded := r.Status == journal.OK || r.Status == journal.Failed || r.Code != ""
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	running, idle, err := w.workers.State(ctx, w.ID)
	if running || !hasEnded { // the journal has the end of a run a moment before the engine has its answer
		r.Status, r.Code = journal.Running, ""
	}
	switch {
	case err != nil && hasEnded:
		r.Note = "it has ended, but its answer cannot be read because the workers' engine does not answer: ask again"
	case err != nil:
		r.Note = "its progress is unknown because the workers' engine does not answer: ask again"
	case running && idle:
		r.Note = "no worker is polling: it continues once one does"
	case running && r.Row.Lease == w.Lease:
		r.Note = "it waits until a worker takes it"
	case running:
		r.Note = "a worker carries it out"
	default:
		return w.ended(ctx, r)
	}
	return r
}

// ended completes the state of a run that workers are done with; see handedState.
func (w *atWorkers) ended(ctx context.Context, r *DetachedRun) *DetachedRun {
	ended, err := w.workers.Answer(ctx, w.ID)
	if err != nil && fault.CodeOf(err) != fault.TokenExpired {
		r.Note = "workers are done with it, and its answer cannot be read now: ask again"
		return r
	}
	if err == nil && ended.Lease != 0 && ended.Lease != r.LastLease { // it may have ended since the row was read
		if now, f := w.request.runRow(ctx, w.Run); f == nil {
			r.Row = *now
		}
	}
	switch {
	// The answer is not known any more, or it is not certain to be that of the run's last events: the run may have continued elsewhere.
	case err != nil, ended.Lease == 0 && r.Status != journal.Running, ended.Lease != 0 && ended.Lease != r.LastLease:
		return nil
	case ended.Answer != nil && !w.request.rights.Cover(ended.Rights):
		return nil
	}
	a := w.answer(ctx, ended)
	r.Answer, r.Text, r.Lifetime = a.AsJSON(), a.Text, time.Until(r.Expires)
	r.Status, r.Code = statusOf(a)
	r.Cancelled = r.Code == fault.Cancelled
	return r
}
