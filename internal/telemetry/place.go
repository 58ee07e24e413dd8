package telemetry

import (
	"context"
	"encoding/hex"
	"math/rand/v2"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/steps"
)

// place is where something happens: what contexts carry of it.
type place struct {
	chain   string   // id of the request; "": in no request
	at      string   // the step's JSON Pointer; "": in no step
	request *request // nil: it has not begun
}

type placeKey struct{}

func placeOf(ctx context.Context) *place {
	p, _ := ctx.Value(placeKey{}).(*place)
	return p
}

// newID gives a chain id. It is drawn by chance, so that nobody sees by it how many others there are.
func newID() string {
	var raw [8]byte
	bits := rand.Uint64()
	for i := range raw {
		raw[i] = byte(bits >> (8 * i))
	}
	return hex.EncodeToString(raw[:])
}

// request is a request under way, and the context of all that is done for it: one thing, as there are many of them.
type request struct {
	context.Context
	place
	t     *Telemetry
	about *chain.Observed
	span  trace.Span // nil: there are no traces

	spans atomic.Int64 // of its steps
	lost  atomic.Int64 // steps that have no span, as there are too many
	steps stepCounts

	running [mostRunning]atomic.Pointer[step] // steps that run a function
	slowest atomic.Pointer[slowest]

	long longWatch
}

// Value implements context.Context.
func (r *request) Value(key any) any {
	if key == (placeKey{}) {
		return &r.place
	}
	return r.Context.Value(key)
}

func (r *request) end(e *chain.Ended) {
	t := r.t
	t.running.Add(-1)
	r.unwatch()
	t.metrics.request(r, e)
	endRequest(r, e)
	t.logRequest(r, e)
}

// step is a step under way, and the context of its calls.
type step struct {
	context.Context
	place
	t      *Telemetry
	fn     string // "": an inline chain
	effect steps.Effect
	span   trace.Span // nil: it has none
	slot   int        // among the running ones of its request; none: it is not one of them
}

// Value implements context.Context.
func (s *step) Value(key any) any {
	if key == (placeKey{}) {
		return &s.place
	}
	return s.Context.Value(key)
}

func (s *step) end(e chain.StepEnded) {
	if r := s.request; r != nil {
		r.steps.ended(e.Status)
		r.rests(s)
		r.compared(s, e.Took)
	}
	endStep(s, e)
	s.t.logStep(s, e)
}
