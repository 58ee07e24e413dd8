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

// place is where something happens: what contexts carry of it.
type place struct {
	chain   string   // id of the request; "": in no request
	tool    string   // of MCP, that the request came as a call of; "": of none
	at      string   // the step's JSON Pointer; "": in no step
	request *request // nil: it has not begun
}

type placeKey struct{}

func placeOf(ctx context.Context) *place {
	p, _ := ctx.Value(placeKey{}).(*place)
	return p
}

// within is the context of what happens at a place.
type within struct {
	context.Context
	place
}

// Value implements context.Context.
func (w *within) Value(key any) any {
	if key == (placeKey{}) {
		return &w.place
	}
	return w.Context.Value(key)
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
	within
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

func (r *request) end(e *chain.Ended) {
	t := r.t
	t.running.Add(-1)
	r.unwatch()
	t.metrics.request(r, e)
	if r.span != nil {
		endRequest(r, e)
	}
	t.logRequest(r, e)
}

// step is a step under way, and the context of its calls.
type step struct {
	within
	t      *Telemetry
	fn     string // "": an inline chain
	effect steps.Effect
	span   trace.Span // nil: it has none
	slot   int        // among the running ones of its request; none: it is not one of them
}

func (s *step) end(e chain.StepEnded) {
	if s.request != nil {
		s.request.ended(s, e)
	}
	if s.span != nil {
		endStep(s, e)
	}
	if s.t.log.Enabled(s, slog.LevelDebug) {
		s.t.logStep(s, e)
	}
}
