package telemetry

import (
	"context"
	"errors"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
)

// Stored counts and times an operation of a store that is not a budget.Driver, such as that of sessions. store and operation are
// words of the code, never those of a caller.
func (t *Telemetry) Stored(store, operation string, took time.Duration, err error) {
	t.metrics.stored.WithLabelValues(store, operation, storeCode(err)).Inc()
	t.metrics.storeDuration.WithLabelValues(store, operation).Observe(took.Seconds())
}

// storeCode is the code of an operation's end; that there is nothing under a key is a code of its own.
func storeCode(err error) string {
	f, coded := fault.As(err)
	switch {
	case err == nil:
		return ok
	case errors.Is(err, budget.ErrNotFound):
		return "not_found"
	case coded && f != nil:
		return string(f.Code)
	case errors.Is(err, context.Canceled):
		return string(fault.Cancelled)
	case errors.Is(err, context.DeadlineExceeded):
		return string(fault.Timeout)
	}
	return string(fault.Unavailable) // drivers give the errors of what they stand on as they are
}

// Driver counts and times the operations of a store of results; store is its name among the metrics.
func (t *Telemetry) Driver(store string, d budget.Driver) budget.Driver {
	return &driver{Driver: d, t: t, store: store}
}

type driver struct {
	budget.Driver // whose Close is closed
	t             *Telemetry
	store         string
}

func (d *driver) note(operation string, started time.Time, err error) {
	d.t.Stored(d.store, operation, time.Since(started), err)
}

// Put implements budget.Driver.
func (d *driver) Put(ctx context.Context, key string, e budget.Entry) (err error) {
	defer func(started time.Time) { d.note("put", started, err) }(time.Now())
	return d.Driver.Put(ctx, key, e)
}

// Get implements budget.Driver.
func (d *driver) Get(ctx context.Context, key string) (e budget.Entry, err error) {
	defer func(started time.Time) { d.note("get", started, err) }(time.Now())
	return d.Driver.Get(ctx, key)
}

// Touch implements budget.Driver.
func (d *driver) Touch(ctx context.Context, key string, expires time.Time) (err error) {
	defer func(started time.Time) { d.note("touch", started, err) }(time.Now())
	return d.Driver.Touch(ctx, key, expires)
}

// Delete implements budget.Driver.
func (d *driver) Delete(ctx context.Context, key string) (err error) {
	defer func(started time.Time) { d.note("delete", started, err) }(time.Now())
	return d.Driver.Delete(ctx, key)
}
