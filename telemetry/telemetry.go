package telemetry

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"math/rand/v2"
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
	// slow, error for a defect, with its cause. At the level debug it gets a line for each step too. What is wrong with a store is
	// an error. nil: nothing is logged.
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
}

// Telemetry is a chain.Observer. It may be used by many goroutines.
type Telemetry struct {
	log     *slog.Logger
	scrub   func(string) string
	metrics *metrics
	running atomic.Int64
	stores  storeLog

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

// place is where in a request something happens: what the context carries of it.
type place struct {
	chain string // id of the request
	at    string // the step's JSON Pointer; "": in no step
	*request
}

type placeKey struct{}

func placeOf(ctx context.Context) *place {
	p, _ := ctx.Value(placeKey{}).(*place)
	return p
}

// request is a request under way.
type request struct {
	spans atomic.Int64 // of its steps
	lost  atomic.Int64 // steps that have no span, as there are too many
}

// newID gives a chain id: 16 hexadecimal digits. It tells requests apart, and gives access to nothing.
func newID() string {
	var raw [8]byte
	bits := rand.Uint64()
	for i := range raw {
		raw[i] = byte(bits >> (8 * i))
	}
	var text [16]byte
	hex.Encode(text[:], raw[:])
	return string(text[:])
}

// Request implements chain.Observer.
func (t *Telemetry) Request(ctx context.Context, o *chain.Observed) (context.Context, func(*chain.Ended)) {
	t.running.Add(1)
	here := &place{chain: newID(), request: &request{}}
	ctx = context.WithValue(ctx, placeKey{}, here)
	ctx, span := t.beginRequest(ctx, here, o)
	return ctx, func(e *chain.Ended) {
		t.running.Add(-1)
		t.metrics.request(o, e)
		t.endRequest(span, here.request, o, e)
		t.logRequest(ctx, o, e)
	}
}

// Step implements chain.Observer.
func (t *Telemetry) Step(ctx context.Context, s *chain.ObservedStep) (context.Context, func(*chain.StepEnded)) {
	here := &place{at: s.At}
	if around := placeOf(ctx); around != nil {
		here.chain, here.request = around.chain, around.request
	}
	ctx = context.WithValue(ctx, placeKey{}, here)
	ctx, span := t.beginStep(ctx, here.request, s)
	return ctx, func(e *chain.StepEnded) {
		t.metrics.step(e)
		endStep(span, s, e)
		t.logStep(ctx, s, e)
	}
}

// Refused counts a request that a door did not let in. reason is one of a few words, such as "token", "host" or "rate".
func (t *Telemetry) Refused(reason string) { t.metrics.refused(reason) }

// Reloaded takes note of an attempt to put a new configuration in the place of the one that is served. New has taken note of
// the first one, that it was made with.
func (t *Telemetry) Reloaded(err error) { t.metrics.reloaded(err, time.Now()) }
