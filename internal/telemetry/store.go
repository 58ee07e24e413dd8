package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
)

// stored counts and times an operation of a store. store and operation are words of
// the code, never those of a caller; err is what it ended with, nil where it went well. Where the store itself failed
// (unavailable, internal, an error without a code), that is logged with the cause, for each store and code once in 10 s at most.
func (t *Telemetry) stored(ctx context.Context, store, operation string, took time.Duration, err error) {
	code := storeCode(err)
	t.metrics.stored.WithLabelValues(store, operation, code).Inc()
	t.metrics.storeDuration.WithLabelValues(store, operation).Observe(took.Seconds())
	if code != string(fault.Unavailable) && code != string(fault.Internal) {
		return
	}
	others, due := t.stores.due(store+" "+code, time.Now())
	if !due {
		return
	}
	l := make(line, 0, lineRoom)
	l.add(slog.String("store", store))
	l.add(slog.String("operation", operation))
	l.add(slog.String("code", code))
	l.add(slog.Int64("others", others))
	l.add(slog.String("error", t.told(err.Error(), maxText)))
	if cause := errors.Unwrap(err); cause != nil {
		l.add(slog.String("cause", t.told(cause.Error(), maxCause)))
	}
	t.log.LogAttrs(ctx, slog.LevelError, "a store failed", l...)
}

// storeLogEvery is how often it is logged that a store fails.
const storeLogEvery = 10 * time.Second

// storeLog remembers what was logged of which stores. The zero value is that nothing was.
type storeLog struct {
	mu     sync.Mutex
	failed map[string]*storeFailure
}

type storeFailure struct {
	last   time.Time
	others int64 // since then, that were not logged
}

// due tells whether a failure is to be logged, and how many were not since the last one that was.
func (s *storeLog) due(key string, now time.Time) (others int64, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.failed[key]
	if f == nil {
		if s.failed == nil {
			s.failed = map[string]*storeFailure{}
		}
		f = &storeFailure{}
		s.failed[key] = f
	}
	if !f.last.IsZero() && now.Sub(f.last) < storeLogEvery {
		f.others++
		return 0, false
	}
	others, f.others, f.last = f.others, 0, now
	return others, true
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

// Driver gives a store of results whose operations are counted and timed; store is its name among the metrics, a word of the
// code. What it answers, its errors included, comes back as it is. Where the store fails that is logged as by stored.
func (t *Telemetry) Driver(store string, d budget.Driver) budget.Driver {
	return &driver{Driver: d, t: t, store: store}
}

type driver struct {
	budget.Driver // whose Close is closed
	t             *Telemetry
	store         string
}

func (d *driver) note(ctx context.Context, operation string, started time.Time, err error) {
	d.t.stored(ctx, d.store, operation, time.Since(started), err)
}

// Put implements budget.Driver.
func (d *driver) Put(ctx context.Context, key string, e budget.Entry) (err error) {
	defer func(started time.Time) { d.note(ctx, "put", started, err) }(time.Now())
	return d.Driver.Put(ctx, key, e)
}

// Get implements budget.Driver.
func (d *driver) Get(ctx context.Context, key string, admit budget.Admit) (e budget.Entry, err error) {
	defer func(started time.Time) { d.note(ctx, "get", started, err) }(time.Now())
	return d.Driver.Get(ctx, key, admit)
}

// Touch implements budget.Driver.
func (d *driver) Touch(ctx context.Context, key string, expires time.Time) (err error) {
	defer func(started time.Time) { d.note(ctx, "touch", started, err) }(time.Now())
	return d.Driver.Touch(ctx, key, expires)
}

// Delete implements budget.Driver.
func (d *driver) Delete(ctx context.Context, key string) (err error) {
	defer func(started time.Time) { d.note(ctx, "delete", started, err) }(time.Now())
	return d.Driver.Delete(ctx, key)
}
