package steps

import "context"

type traceKey struct{}

// trace is the pair of values of W3C Trace Context.
type trace struct{ parent, state string }

// WithTrace gives a context whose calls are part of a trace: sources send its values on to the servers that they call.
// parent and state are the values of traceparent and tracestate (W3C Trace Context, sections 3.2 and 3.3), as a
// propagator has made them; they are not looked at here. state may be "". parent "": the calls are part of no trace,
// whatever ctx carried before. Neither is an argument of a call: caches and recordings do not see them.
func WithTrace(ctx context.Context, parent, state string) context.Context {
	if parent == "" {
		state = "" // it means nothing alone
	}
	return context.WithValue(ctx, traceKey{}, trace{parent, state})
}

// Trace is the traceparent and the tracestate that the calls of ctx are to carry; "" for each that there is none of.
func Trace(ctx context.Context) (parent, state string) {
	t, _ := ctx.Value(traceKey{}).(trace)
	return t.parent, t.state
}
