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

// observeStore counts and times an operation of a store. store and operation are constants, never words of a caller. err is the
// operation's error. If the store itself failed (unavailable, internal, or an error without a code), the error and its cause are logged,
// at most once in storeLogInterval for each store and code.
func (t *Telemetry) observeStore(ctx context.Context, store, operation string, took time.Duration, err error) {
	code := storeCode(err)
	t.metrics.storeOperations.WithLabelValues(store, operation, code).Inc()
	t.metrics.storeDuration.WithLabelValues(store, operation).Observe(took.Seconds())
	if code != string(fault.Unavailable) && code != string(fault.Internal) {
		return
	}
	others, due := t.stores.due(store+" "+code, time.Now())
	if !due {
		return
	}
	l := make(line, 0, lineCapacity)
	l.add(slog.String("store", store))
	l.add(slog.String("operation", operation))
	l.add(slog.String("code", code))
	l.add(slog.Int64("others", others))
	l.add(slog.String("error", t.redact(err.Error(), maxText)))
	if cause := errors.Unwrap(err); cause != nil {
		l.add(slog.String("cause", t.redact(cause.Error(), maxCause)))
	}
	t.log.LogAttrs(ctx, slog.LevelError, "a store failed", l...)
}

// storeLogInterval is the minimum time between two records of a failing store with the same code.
const storeLogInterval = 10 * time.Second

// storeLog remembers when failures were last logged. The zero value is empty.
type storeLog struct {
	mu     sync.Mutex
	failed map[string]*storeFailure
}

type storeFailure struct {
	last   time.Time
	others int64 // failures since last that were not logged
}

// due reports whether to log a failure, and how many failures were not logged since the last one that was.
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
	if !f.last.IsZero() && now.Sub(f.last) < storeLogInterval {
		f.others++
		return 0, false
	}
	others, f.others, f.last = f.others, 0, now
	return others, true
}

// storeCode returns the code that an operation ended with: ok, an error code, or not_found for a missing key.
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
	return string(fault.Unavailable) // drivers return the errors of their libraries unchanged
}

// Driver returns a store of results whose operations are counted and timed as in observeStore. store is its constant name in the metrics.
// Results and errors are unchanged.
func (t *Telemetry) Driver(store string, d budget.Driver) budget.Driver {
	return &driver{Driver: d, t: t, store: store}
}

type driver struct {
	budget.Driver // Close is not counted
	t             *Telemetry
	store         string
}

func (d *driver) observe(ctx context.Context, operation string, started time.Time, err error) {
	d.t.observeStore(ctx, d.store, operation, time.Since(started), err)
}

// Put implements budget.Driver.
func (d *driver) Put(ctx context.Context, key string, e budget.Entry) (err error) {
	defer func(started time.Time) { d.observe(ctx, "put", started, err) }(time.Now())
	return d.Driver.Put(ctx, key, e)
}

// Get implements budget.Driver.
func (d *driver) Get(ctx context.Context, key string, admit budget.Admit) (e budget.Entry, err error) {
	defer func(started time.Time) { d.observe(ctx, "get", started, err) }(time.Now())
	return d.Driver.Get(ctx, key, admit)
}

// Touch implements budget.Driver.
func (d *driver) Touch(ctx context.Context, key string, expires time.Time) (err error) {
	defer func(started time.Time) { d.observe(ctx, "touch", started, err) }(time.Now())
	return d.Driver.Touch(ctx, key, expires)
}

// Delete implements budget.Driver.
func (d *driver) Delete(ctx context.Context, key string) (err error) {
	defer func(started time.Time) { d.observe(ctx, "delete", started, err) }(time.Now())
	return d.Driver.Delete(ctx, key)
}
