package httpbody

import (
	"context"
	"net/http"

	"golang.org/x/net/http/httpguts"

	"github.com/onecall-mcp/onecall/steps"
)

// The headers of W3C Trace Context, sections 3.2 and 3.3.
const parentHeader, stateHeader = "Traceparent", "Tracestate"

// Trace has a request carry the trace of ctx, where there is one and the headers name no other.
func Trace(ctx context.Context, header http.Header) {
	parent, state := steps.Trace(ctx)
	if parent == "" || !httpguts.ValidHeaderFieldValue(parent) || header[parentHeader] != nil || header[stateHeader] != nil {
		return
	}
	header[parentHeader] = []string{parent}
	if state != "" && httpguts.ValidHeaderFieldValue(state) {
		header[stateHeader] = []string{state}
	}
}

// Repeatable has a request carry the idempotency key of its call, where it has one: it wins over a header of that name.
func Repeatable(ctx context.Context, header http.Header) {
	if name, key := steps.IdempotencyKey(ctx); key != "" && httpguts.ValidHeaderFieldName(name) {
		header.Set(name, key)
	}
}
