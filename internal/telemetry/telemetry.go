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

// Options say what is told of. nil is the zero value.
type Options struct {
	// Log gets a line for each request at its end: at the level info; warn where what onecall depends on was unavailable or too
	// slow, error for a defect, with its cause. At the level debug it gets a line for each step too. A request that runs for 30 s,
	// then 1, 2 and 4 minutes, is a warning. What is wrong with a store is an error. nil: nothing is logged.
	Log *slog.Logger
	// Scrub takes secrets out of what is logged of errors, before it is cut; nil: there are none. Many goroutines call it at once.
	Scrub func(text string) string
	// Version is that of this program, for the metrics and the traces; "": "dev".
	Version string

	// What is asked for each time the metrics are read, by several goroutines at once; nil: it is not among them. It must
	// answer at once.
	Sessions func() int                // of clients
	Running  func() int                // calls of tools under way; nil: the requests under way
	Sources  func() []steps.SourceInfo // the sources and where they stand
	Dropped  func() int                // lines of logs that were given up, ever

	Unrecorded func() int // calls that are missing in a recording, ever
}

// Telemetry is a chain.Identifier: an observer that gives ids. New makes it; the zero value is of no use. It may be used by many
// goroutines.
type Telemetry struct {
	log     *slog.Logger
	scrub   func(string) string
	metrics *metrics
	running atomic.Int64
	stores  storeLog

	tellsLong bool // somebody reads that a request runs long

	tracer trace.Tracer // nil: there are no traces
	stop   func(context.Context) error
}

// New starts what is told, as the options and the environment say. The caller closes it.
// Codes: bad_request where a variable of OpenTelemetry cannot be used, not_supported where it asks for what there is not.
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
	t.tellsLong = t.log.Enabled(context.Background(), slog.LevelWarn)
	t.metrics = newMetrics(o, &t.running)
	var err error
	t.tracer, t.stop, err = startTraces(o.Version, &reporter{log: t.log, scrub: t.scrub, metrics: t.metrics})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// closeTime bounds Close where its context has no end of its own.
const closeTime = 5 * time.Second

// Close sends the spans that have ended and not been sent, for 5 s at most and no longer than ctx lasts: timeout where some of
// them had to be given up. Metrics and logs go on. It may be called more than once.
func (t *Telemetry) Close(ctx context.Context) error {
	if t.stop == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, closeTime)
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

// Identify implements chain.Identifier: what is begun in the context that it gives has the id in its logs and traces. The id
// is given, or drawn by chance where given is "": 16 hexadecimal digits that tell requests apart and give access to nothing.
func (t *Telemetry) Identify(ctx context.Context, given string) (context.Context, string) {
	if given == "" {
		given = newID()
	}
	here := &place{chain: given}
	return context.WithValue(ctx, placeKey{}, here), here.chain
}

// Request implements chain.Observer. A request in a context that Identify has not given has an id of its own.
func (t *Telemetry) Request(ctx context.Context, o *chain.Observed) (context.Context, func(*chain.Ended)) {
	r := &request{t: t, about: o}
	r.Context, r.request = ctx, r
	if around := placeOf(ctx); around != nil {
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
	if t.tellsLong {
		r.watch()
	}
	return r, r.end
}

// Step implements chain.Observer.
func (t *Telemetry) Step(ctx context.Context, about chain.ObservedStep) (context.Context, func(chain.StepEnded)) {
	s := &step{t: t, fn: about.Function, effect: about.Effect}
	s.Context, s.at = ctx, about.At
	if around := placeOf(ctx); around != nil {
		s.chain, s.request = around.chain, around.request
	}
	if s.request != nil {
		if t.tracer != nil {
			t.beginStep(s)
		}
		s.request.runs(s)
	}
	return s, s.end
}

// Refused counts a request that was refused before it was looked at. reason is a word of the code, such as "token", "host" or "busy"; past 30
// different ones it is "other".
func (t *Telemetry) Refused(reason string) { t.metrics.refused(reason) }

// Reloaded takes note of an attempt to put a new configuration in the place of the one that is served: err nil, it is served
// from now on. New has taken note of the first one, that it was made with.
func (t *Telemetry) Reloaded(err error) { t.metrics.reloaded(err, time.Now()) }
