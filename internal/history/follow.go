package history

import (
	"context"
	"slices"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// pollInterval is the time between two reads of the journal, which other processes write without notification.
const pollInterval = time.Second

// maxFollowedRuns is how many of the newest runs are followed at most, whatever the filter's limit is.
const maxFollowedRuns = 1000

// poll calls look immediately and then every pollInterval, until look returns false or an error, or ctx ends.
func poll(ctx context.Context, look func() (more bool, err error)) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if more, err := look(); err != nil || !more {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Follow calls each for the calls and other events of a run, past and new, until the run has ended or waits. It calls each again for a call
// whose status has changed. read returns the current state of the run. Calls that only read are written to the journal late: if a run makes
// no other calls, they appear when it ends. If ctx ends first, Follow returns its error.
func Follow(ctx context.Context, read func(context.Context) (*Timeline, error), each func(*Call) error) error {
	reported := map[int]string{} // the last reported status, by the number of the event
	return poll(ctx, func() (bool, error) {
		t, err := read(ctx)
		if err != nil {
			return false, err
		}
		for i := range t.List {
			c, n := &t.List[i], t.numbers[i]
			if status, known := reported[n]; known && status == c.Status {
				continue
			}
			reported[n] = c.Status
			if err := each(c); err != nil {
				return false, err
			}
		}
		return t.Status == journal.Running, nil
	})
}

// FollowRuns calls each for the runs that match a filter, oldest first, then for new runs, and again for a run whose status has changed. It
// ends with an error of each or the journal, or with that of ctx. The filter's limit applies only to the runs so far.
func FollowRuns(ctx context.Context, j *journal.Journal, f *journal.Filter, each func(*Run) error) error {
	reported := map[string]journal.Status{}
	limit := f.Limit // of the first look; 0: none
	return poll(ctx, func() (bool, error) {
		all := *f
		all.Status, all.Limit = "", maxFollowedRuns
		runs, err := Runs(ctx, j, &all)
		if err != nil {
			return false, err
		}
		var changed []*Run
		now := make(map[string]journal.Status, len(runs))
		for i := range runs {
			r := &runs[i]
			if now[r.ID] = r.Status; reported[r.ID] != r.Status && (f.Status == "" || f.Status == r.Status) {
				changed = append(changed, r)
			}
		}
		if limit > 0 {
			changed = changed[:min(limit, len(changed))]
		}
		reported, limit = now, 0
		for _, r := range slices.Backward(changed) {
			if err := each(r); err != nil {
				return false, err
			}
		}
		return true, nil
	})
}
