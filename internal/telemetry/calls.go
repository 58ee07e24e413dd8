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

// Wrap returns a clone of the registry whose calls are counted and timed. It must be the innermost wrapper, because answers from a cache or
// recording are not calls of a function.
func (t *Telemetry) Wrap(r *steps.Registry) *steps.Registry {
	return r.Wrap(func(spec *steps.Spec, call steps.Call) steps.Call {
		f := &functionCounter{metrics: t.metrics, spec: spec}
		return func(ctx context.Context, args []byte) (result []byte, err error) {
			series := f.series()
			series.running.Inc()
			started := time.Since(epoch)
			returned := false
			defer func() { // also if the function calls runtime.Goexit
				series.running.Dec()
				series.duration.Observe((time.Since(epoch) - started).Seconds())
				if !returned {
					f.countFailure(fault.Internal)
				}
			}()
			result, err = call(ctx, args)
			returned = true
			if err == nil {
				series.ok.Inc()
			} else {
				f.countFailure(fault.CodeOf(err))
			}
			return result, err
		}
	})
}

// functionCounter counts and times the calls of one function. The first call creates its series.
type functionCounter struct {
	metrics *metrics
	spec    *steps.Spec
	created atomic.Pointer[callMetrics]
}

// callMetrics are the series that each call of a function uses.
type callMetrics struct {
	source, function string
	ok               prometheus.Counter
	duration         prometheus.Observer
	running          prometheus.Gauge
}

// epoch is a fixed time from which calls are timed: time.Since(epoch) is faster than time.Now.
var epoch = time.Now()

// noSource is the label of functions without a source.
const noSource = "none"

// series returns the function's series and creates them at the first call.
func (f *functionCounter) series() *callMetrics {
	if known := f.created.Load(); known != nil {
		return known
	}
	m := f.metrics
	p := &callMetrics{source: m.sources.label(cmp.Or(f.spec.Source(), noSource)), function: m.functions.label(f.spec.Name)}
	p.ok = m.calls.WithLabelValues(p.source, p.function, ok)
	p.duration = m.callDuration.WithLabelValues(p.source)
	p.running = m.callsRunning.WithLabelValues(p.source)
	f.created.CompareAndSwap(nil, p)
	return f.created.Load()
}

func (f *functionCounter) countFailure(code fault.Code) {
	p := f.series()
	f.metrics.calls.WithLabelValues(p.source, p.function, string(code)).Inc()
}
