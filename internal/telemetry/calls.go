package telemetry

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Wrap returns a clone of the registry whose calls are counted and timed. It is to be the innermost wrapping: what a cache or a
// recording answers is no call of a function.
func (t *Telemetry) Wrap(r *steps.Registry) *steps.Registry {
	return r.Wrap(func(spec *steps.Spec, call steps.Call) steps.Call {
		f := &counted{metrics: t.metrics, spec: spec}
		return func(ctx context.Context, args []byte) (result []byte, err error) {
			parts := f.measured()
			parts.running.Inc()
			started := time.Since(epoch)
			returned := false
			defer func() { // also where the function ends its goroutine
				parts.running.Dec()
				parts.duration.Observe((time.Since(epoch) - started).Seconds())
				if !returned {
					f.ended(fault.Internal)
				}
			}()
			result, err = call(ctx, args)
			returned = true
			if err == nil {
				parts.ok.Inc()
			} else {
				f.ended(fault.CodeOf(err))
			}
			return result, err
		}
	})
}

// counted is one function whose calls are counted. It has a place among the metrics from its first call on.
type counted struct {
	metrics *metrics
	spec    *steps.Spec
	parts   atomic.Pointer[callParts]
}

// callParts are the metrics that each call of a function touches.
type callParts struct {
	source, function string
	ok               prometheus.Counter
	duration         prometheus.Observer
	running          prometheus.Gauge
}

// epoch is what times are measured from: less is asked of the clock so than by time.Now.
var epoch = time.Now()

// noSource is the label of functions whose names have no source.
const noSource = "none"

func (f *counted) measured() *callParts {
	if known := f.parts.Load(); known != nil {
		return known
	}
	m := f.metrics
	p := &callParts{source: m.sources.bounded(cmp.Or(f.spec.Source(), noSource)), function: m.functions.bounded(f.spec.Name)}
	p.ok = m.calls.WithLabelValues(p.source, p.function, ok)
	p.duration = m.callDuration.WithLabelValues(p.source)
	p.running = m.callsRunning.WithLabelValues(p.source)
	f.parts.CompareAndSwap(nil, p)
	return f.parts.Load()
}

func (f *counted) ended(code fault.Code) {
	p := f.measured()
	f.metrics.calls.WithLabelValues(p.source, p.function, string(code)).Inc()
}
