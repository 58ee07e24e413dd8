package history

import (
	"context"
	"slices"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// followEvery is how often it is looked for what is new: other processes write it, and none of them tells.
const followEvery = time.Second

// followed bounds the runs that are looked at, the youngest, whatever the filter says: what they become is told.
const followed = 1000

// every calls look at once and every second, until it says that nothing more comes, or ctx ends.
func every(ctx context.Context, look func() (more bool, err error)) error {
	tick := time.NewTicker(followEvery)
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

// Follow tells what happened in a run, and what comes until it has ended or waits for approval. read gives the run as it is at the
// moment. Reads are written later than they are made: those of a run that only reads come when it ends.
func Follow(ctx context.Context, read func(context.Context) (*Timeline, error), each func(*Call) error) error {
	told := map[int]string{} // the status, by the number of the event
	return every(ctx, func() (bool, error) {
		t, err := read(ctx)
		if err != nil {
			return false, err
		}
		for i := range t.List {
			c, n := &t.List[i], t.numbers[i]
			if status, known := told[n]; known && status == c.Status {
				continue
			}
			told[n] = c.Status
			if err := each(c); err != nil {
				return false, err
			}
		}
		return t.Status == journal.Running, nil
	})
}

// FollowRuns tells the runs that a filter means, the oldest first, and each again when it has come to another status, until ctx ends.
func FollowRuns(ctx context.Context, j *journal.Journal, f *journal.Filter, each func(*Run) error) error {
	told := map[string]journal.Status{}
	limit := f.Limit // of those that are there at first
	return every(ctx, func() (bool, error) {
		all := *f
		all.Status, all.Limit = "", followed
		runs, err := Runs(ctx, j, &all)
		if err != nil {
			return false, err
		}
		var changed []*Run
		now := make(map[string]journal.Status, len(runs))
		for i := range runs {
			r := &runs[i]
			if now[r.ID] = r.Status; told[r.ID] != r.Status && (f.Status == "" || f.Status == r.Status) {
				changed = append(changed, r)
			}
		}
		if limit > 0 {
			changed = changed[:min(limit, len(changed))]
		}
		told, limit = now, 0
		for _, r := range slices.Backward(changed) {
			if err := each(r); err != nil {
				return false, err
			}
		}
		return true, nil
	})
}
