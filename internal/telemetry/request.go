package telemetry

import (
	"context"
	"encoding/hex"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/steps"
)

// location is the request and step that a context belongs to.
type location struct {
	chain   string   // id of the request; "": no request
	tool    string   // the MCP tool whose call the request is; "": none
	at      string   // the step's JSON Pointer; "": no step
	request *request // nil: the request has not started
}

type locationKey struct{}

func locationOf(ctx context.Context) *location {
	p, _ := ctx.Value(locationKey{}).(*location)
	return p
}

// locatedContext is a context with a location.
type locatedContext struct {
	context.Context
	location
}

// Value implements context.Context.
func (w *locatedContext) Value(key any) any {
	if key == (locationKey{}) {
		return &w.location
	}
	return w.Context.Value(key)
}

// newID returns a random chain id. Unlike a counter, it does not reveal the number of other requests.
func newID() string {
	var raw [8]byte
	bits := rand.Uint64()
	for i := range raw {
		raw[i] = byte(bits >> (8 * i))
	}
	return hex.EncodeToString(raw[:])
}

// request is a request in progress and the context of its work: one allocation instead of two, as there are many requests.
type request struct {
	locatedContext
	t        *Telemetry
	observed *chain.RequestInfo
	span     trace.Span // nil: no traces

	spans    atomic.Int64 // the number of spans of its steps
	untraced atomic.Int64 // the number of steps without a span because there are too many
	steps    stepCounts

	running [maxRunning]atomic.Pointer[step] // steps that call a function
	slowest atomic.Pointer[slowest]

	slow slowTimer
}

func (r *request) end(e *chain.RequestEnd) {
	t := r.t
	t.running.Add(-1)
	r.stopSlowTimer()
	t.metrics.request(r, e)
	if r.span != nil {
		endRequest(r, e)
	}
	t.logRequest(r, e)
}

// step is a step in progress and the context of its calls.
type step struct {
	locatedContext
	t      *Telemetry
	fn     string // the name of the function; "": an inline chain
	effect steps.Effect
	span   trace.Span // nil: the step has no span
	slot   int        // index in request.running; noSlot: the step is not in it. Set only if request is not nil
}

func (s *step) end(e chain.StepEnd) {
	if s.request != nil {
		s.request.stepEnded(s, e)
	}
	if s.span != nil {
		endStep(s, e)
	}
	if s.t.log.Enabled(s, slog.LevelDebug) {
		s.t.logStep(s, e)
	}
}
