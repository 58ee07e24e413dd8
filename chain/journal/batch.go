package journal

import (
	"context"
	"errors"

	"github.com/onecall-mcp/onecall/fault"
)

// BeginBatch writes a run that makes no calls itself. Its parts are the runs that have it as their parent, in any process. No process holds
// its lease, so it is Running until SetBatchStatus sets another status. Of s, only Caller, Scope, Key, Parent, Chain, Text and Steps
// matter. If the caller has a batch with that key, BeginBatch returns its id and writes nothing; if the caller has another run with that
// key, BeginBatch fails with ErrTaken.
func (j *Journal) BeginBatch(ctx context.Context, s *Start) (id string, err error) {
	start := *s
	start.Hash = func() string { return "" }
	r := j.Begin(&start)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.row.Batch = true
	w := r.takeSegment(false)
	w.Release = true
	err = r.awaitWrite(w)
	if s.Key == "" || !errors.Is(err, ErrTaken) {
		return r.row.ID, err
	}
	if id, err = j.Find(ctx, s.Caller, s.Scope, s.Key); err != nil {
		return "", err
	}
	row, err := j.driver.LoadRow(ctx, id)
	if err == nil && !row.Batch {
		err = ErrTaken
	}
	if err != nil {
		return "", err
	}
	return id, nil
}

// SetBatchStatus sets the status of a batch, from any process. Setting Running again renews its expiry. It fails with ErrNotFound if there
// is no such batch, and with ErrBusy if another process ends it at the same time.
func (j *Journal) SetBatchStatus(ctx context.Context, id string, status Status, code fault.Code) error {
	past, err := j.Acquire(ctx, id, nil)
	if err != nil {
		return err
	}
	if !past.Row.Batch {
		j.Release(past)
		return ErrNotFound
	}
	if err = j.Resume(past, nil).EndUnfinished(status, code, ""); err != nil {
		j.Release(past)
	}
	return err
}
