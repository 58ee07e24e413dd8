package steps

import "context"

type traceKey struct{}

// trace holds the two values of W3C Trace Context.
type trace struct{ parent, state string }

// WithTrace returns a context whose calls belong to a trace; sources forward its values to the servers that they call. parent and
// state are the values of traceparent and tracestate (W3C Trace Context, sections 3.2 and 3.3) from a propagator; they are not
// checked. state may be "". An empty parent removes the trace that ctx carries. Caches and recordings do not see these values.
func WithTrace(ctx context.Context, parent, state string) context.Context {
	if parent == "" {
		state = "" // it has no meaning alone
	}
	return context.WithValue(ctx, traceKey{}, trace{parent, state})
}

// Trace returns the traceparent and the tracestate for the calls of ctx; "" if there is none.
func Trace(ctx context.Context) (parent, state string) {
	t, _ := ctx.Value(traceKey{}).(trace)
	return t.parent, t.state
}
