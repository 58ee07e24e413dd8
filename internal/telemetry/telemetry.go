package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Options are the settings of Telemetry. A nil *Options is the zero value.
type Options struct {
	// Log gets a record for each request at its end, at level info; warn if a dependency was unavailable or too slow; error for an
	// internal error, with its cause. At level debug it also gets a record for each step. A request that has run for 30 s is logged as
	// a warning, and again after 1, 2 and 4 minutes. A failing store is logged as an error. nil: nothing is logged.
	Log *slog.Logger
	// Scrub removes secrets from logged errors before they are clipped; nil: there are no secrets. It is called concurrently.
	Scrub func(text string) string
	// Version is the program's version for metrics and traces; "": "dev".
	Version string

	// These functions are called, concurrently, whenever the metrics are read; nil: the metric is missing. They must not block.
	Sessions func() int                // the number of sessions of clients
	Running  func() int                // the number of calls of tools in progress; nil: the metric is the number of requests in progress
	Sources  func() []steps.SourceInfo // all sources with their states
	Dropped  func() int                // the total number of dropped log lines

	Unrecorded func() int // the total number of lines that could not be written to the recording
}

// Telemetry is a chain.Identifier, an observer that assigns ids. Create it with New. It is safe for concurrent use.
type Telemetry struct {
	log     *slog.Logger
	scrub   func(string) string
	metrics *metrics
	running atomic.Int64
	stores  storeLog

	logsSlow bool // slow requests are logged, because the log's level includes warnings

	tracer trace.Tracer                // nil: no traces
	stop   func(context.Context) error // as in startTraces; nil: no traces
}

// New starts logs, metrics and traces according to the options and the environment. The caller closes it. Codes: bad_request for an
// invalid OpenTelemetry variable, not_supported for an unsupported setting.
func New(o *Options) (*Telemetry, error) {
	if o == nil {
		o = &Options{}
	}
	t := &Telemetry{log: o.Log, scrub: o.Scrub}
	if t.scrub == nil {
		t.scrub = func(text string) string { return text }
	}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	} else {
		t.log = slog.New(LogHandler(t.log.Handler()))
	}
	t.logsSlow = t.log.Enabled(context.Background(), slog.LevelWarn)
	t.metrics = newMetrics(o, &t.running)
	var err error
	t.tracer, t.stop, err = startTraces(o.Version, &reporter{log: t.log, scrub: t.scrub, metrics: t.metrics})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// closeTimeout bounds Close.
const closeTimeout = 5 * time.Second

// Close sends the remaining spans for at most 5 s or until ctx ends. It returns timeout if that was too short, and unavailable if sending
// ended with another error. Metrics and logs continue. It may be called more than once.
func (t *Telemetry) Close(ctx context.Context) error {
	if t.stop == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	err := t.stop(ctx)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		f := fault.New(fault.Timeout, "the last traces could not be sent in time: they are lost")
		f.Err = err
		return f
	}
	if err != nil {
		f := fault.New(fault.Unavailable, "the last traces could not be sent: %s", clip(t.scrub(err.Error())))
		f.Err = err
		return f
	}
	return nil
}

// Identify implements chain.Identifier. Requests in the returned context have the id in their logs and traces: the given one, or a random
// one if given is "". A random id has 16 hexadecimal digits; it distinguishes requests and gives access to nothing.
func (t *Telemetry) Identify(ctx context.Context, given string) (context.Context, string) {
	if given == "" {
		given = newID()
	}
	current := &location{chain: given}
	return context.WithValue(ctx, locationKey{}, current), current.chain
}

// Request implements chain.Observer. Without Identify the request gets an id of its own.
func (t *Telemetry) Request(ctx context.Context, o *chain.RequestInfo) (context.Context, func(*chain.RequestEnd)) {
	r := &request{t: t, observed: o}
	r.Context, r.request = ctx, r
	if around := locationOf(ctx); around != nil {
		r.tool = around.tool
		if around.request == nil {
			r.chain = around.chain
		}
	}
	if r.chain == "" {
		r.chain = newID()
	}
	if t.tracer != nil {
		t.beginRequest(r)
	}
	t.running.Add(1)
	if t.logsSlow {
		r.armSlowTimer()
	}
	return r, r.end
}

// Step implements chain.Observer.
func (t *Telemetry) Step(ctx context.Context, info chain.StepInfo) (context.Context, func(chain.StepEnd)) {
	s := &step{t: t, fn: info.Function, effect: info.Effect}
	s.Context, s.at = ctx, info.At
	if parent := locationOf(ctx); parent != nil {
		s.chain, s.request = parent.chain, parent.request
	}
	if s.request != nil {
		if t.tracer != nil {
			t.beginStep(s)
		}
		s.request.trackStep(s)
	}
	return s, s.end
}

// Refused counts a request that was refused unread. reason is a constant such as "token", "host" or "busy"; after 30 different reasons it
// is "other".
func (t *Telemetry) Refused(reason string) { t.metrics.refused(reason) }

// Reloaded counts an attempt to replace the served configuration; err is nil if it succeeded. New counts the first configuration.
func (t *Telemetry) Reloaded(err error) { t.metrics.reloaded(err, time.Now()) }
