package journal

import (
	"context"
	"errors"
)

// maxExamined is how many of the newest runs Examine reads.
const maxExamined = 100

// Examine checks the whole database and the records of the newest runs for damage. A record written with another key counts as damaged. It
// returns the first problem found, or nil.
func (j *Journal) Examine(ctx context.Context) error {
	if err := j.driver.Verify(ctx); err != nil {
		return err
	}
	rows, err := j.List(ctx, &Filter{Limit: maxExamined})
	if err != nil {
		return err
	}
	for i := range rows {
		if _, err := j.Read(ctx, rows[i].ID, nil); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	return nil
}

// List is Driver.List after a flush.
func (j *Journal) List(ctx context.Context, f *Filter) ([]Row, error) {
	j.flush()
	return j.driver.List(ctx, f)
}

// Count counts the runs that match a filter, up to its limit.
func (j *Journal) Count(ctx context.Context, f *Filter) (int, error) {
	rows, err := j.List(ctx, f)
	return len(rows), err
}

// Parts counts the parts of runs of all callers. A run without parts has no entry.
func (j *Journal) Parts(ctx context.Context, runs []string) (map[string]Parts, error) {
	if len(runs) == 0 {
		return nil, nil
	}
	j.flush()
	return j.driver.Parts(ctx, runs)
}

// DaysWithin is Days for a caller that does without if ctx ends first, however long a write takes.
func (j *Journal) DaysWithin(ctx context.Context, f *Filter) ([]Day, error) {
	flushed := make(chan struct{})
	go func() {
		defer close(flushed)
		j.flush()
	}()
	select {
	case <-flushed:
		return j.driver.Days(ctx, f)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Days is Driver.Days after a flush.
func (j *Journal) Days(ctx context.Context, f *Filter) ([]Day, error) {
	j.flush()
	return j.driver.Days(ctx, f)
}
